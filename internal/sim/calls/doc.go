// Package calls is what all protocols of the simulator keep of a call, and how they disturb it: a
// Journal of the calls that came in, and the Faults that make some of them slow, fail or lose their
// answer. It knows no cloud.
//
// A Journal and Faults may be used by any number of goroutines.
package calls
