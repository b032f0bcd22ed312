// Package house holds the tests of the repository as a whole: which package may import which, sizes
// of types and packages, lengths of lines, links between pages, and what else no single package can
// check. docs/ARCHITECTURE.md follows the data through the code.
//
// All tests read the source tree and change nothing. They run from the root of the repository, so
// that paths in them are a visitor's.
package house
