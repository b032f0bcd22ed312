// Package cli is the nephele command: its sub-commands, their flags, and what they print.
//
// A command reads its input, calls the packages that compute the answer, and prints it to standard
// output; notes and errors go to standard error. The exit code is 0 for done, 1 if the answer is
// "no" (or the state differs from the wanted one), and 2 for bad input or failure. Commands take
// nothing from global state but what the Streams and the environment give them; a root command runs
// once.
package cli
