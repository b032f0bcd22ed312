// Package bounds bounds what is taken of AWS: the bytes of one answer, what they become in memory,
// how many large answers are read at once, and the objects of an account in all of its regions.
//
// It promises that an answer over a bound is an error before it is decoded, and that a region that
// fails gives back what was counted for it. Methods may be called from any number of goroutines.
package bounds
