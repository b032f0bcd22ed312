// Package scale measures, in virtual time, how long changes of whole fleets take under the rate
// limits of the clouds: the real realizer against the simulator, which throttles as the clouds do.
//
// It has tests only. With -full they take the sizes of docs/performance.md ("make scale"), else one
// that takes a second. They keep no state.
package scale
