"""The Caffe2 front end: nets in two files, one that fills blobs and one that computes."""
