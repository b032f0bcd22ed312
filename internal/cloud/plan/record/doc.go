// Package record reads and writes what tags remember between two plans: the groups that an
// interface had before it was taken over, the signature that proves them, and the policies in force
// on a class. It also reads what an authorized user has confirmed in place of a record.
//
// It owns the form of these tags. It promises that what is written is read back as it was, that
// nothing is read from incomplete tags, and that only a holder of a key can sign.
//
// It is pure. A Seal may be used by several goroutines at a time.
package record
