// Package record has what tags remember between two plans: which groups an interface had before it
// was taken over, the signature that proves it, and which policies are in force on a class. What
// somebody who may says in place of a record is read here, too.
//
// It owns the form of these tags. It promises that what is written is read back as it was, that
// nothing is read out of tags that are not whole, and that only who has a key signs.
//
// It is pure. A Seal may be used by several goroutines at a time.
package record
