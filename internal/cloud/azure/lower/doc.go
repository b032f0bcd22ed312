// Package lower is the meaning of network security groups: it writes what is allowed as rules of
// Azure (Encode), reads such rules back (Decode), and says what the ordered rules of somebody
// else's group allow one interface (Native).
//
// It owns the encoding and the arithmetic of Azure's limits. Encode loses nothing: Decode of what
// it wrote is what it was given. Native never says more than the group allows; what it cannot say
// exactly it leaves out, and names.
//
// Everything is a pure function; values may be used from any number of goroutines.
package lower
