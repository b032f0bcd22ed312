// Package nephele holds the tests of the repository as a whole: who may import whom, package names
// and comments. The code lies in api, internal, cmd and standalone; docs/ARCHITECTURE.md follows
// the data through them.
package nephele
