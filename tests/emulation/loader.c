/* A Linux program for RISC-V, without a C library: maps a program and its memory, calls one of its
 * functions, and ends. The memory begins with a call: function, result, arguments.
 *
 *     loader program program-address memory memory-address
 */
typedef unsigned long word;
typedef word function(word, word, word, word, word, word, word, word,
                      word, word, word, word, word, word, word, word);

enum { openat = 56, lseek = 62, exit_ = 93, mmap = 222, here = -100 };
enum { read_write = 2, all_access = 7, shared_fixed = 0x11, private_fixed = 0x12, at_end = 2 };

static word ask(word number, word a, word b, word c, word d, word e) {
  register word a0 __asm__("a0") = a;
  register word a1 __asm__("a1") = b;
  register word a2 __asm__("a2") = c;
  register word a3 __asm__("a3") = d;
  register word a4 __asm__("a4") = e;
  register word a5 __asm__("a5") = 0;
  register word a7 __asm__("a7") = number;
  __asm__ volatile("ecall"
                   : "+r"(a0)
                   : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7)
                   : "memory");
  return a0;
}

static word number(const char *text) {
  word value = 0;
  while (*text) value = value * 10 + (word)(*text++ - '0');
  return value;
}

static word *map(const char *path, const char *address, word kind) {
  word file = ask(openat, (word)here, (word)path, read_write, 0, 0);
  word size = ask(lseek, file, 0, at_end, 0, 0);
  return (word *)ask(mmap, number(address), size, all_access, kind, file);
}

__attribute__((used)) static void begin(word *stack) {
  char **arguments = (char **)(stack + 1);
  map(arguments[1], arguments[2], private_fixed);
  word *call = map(arguments[3], arguments[4], shared_fixed);
  word *a = call + 2;
  call[1] = ((function *)call[0])(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7],
                                  a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
  ask(exit_, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start: mv a0, sp\n andi sp, sp, -16\n call begin\n");
