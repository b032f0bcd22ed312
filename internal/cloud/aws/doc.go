// Package aws is the adapter between the port of package cloud and AWS: EC2 for networks,
// interfaces and security groups, STS for who we are.
//
// It owns the credentials of one account, the translation between the SDK's values and the port's,
// the classification of every error (errors.go, nowhere else), where requests may go and with whose
// identity (reach.go, identity.go), how much is taken of an answer and of an account (bounds.go,
// kept.go), and the handling of the cloud's manners: pages, eventual consistency, answers that were
// lost. It promises that Observe returns all of a region or an error, and that Apply of the same op
// twice does no more than once.
//
// Concurrency: a Provider may be used from any number of goroutines. It keeps no state of the
// cloud; what it remembers is credentials, the account number they belong to, one client per
// region, and for some seconds which groups it has just created, so that "not found" can be told
// from "not visible yet".
package aws
