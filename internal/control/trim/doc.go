// Package trim makes objects smaller before informers keep them.
//
// It owns what a process holds of each object of the cluster: which fields no one reads, and which
// labels, texts and specs many objects share. It promises that policies computed from trimmed
// objects are the policies computed from whole ones. A Trimmer is safe for concurrent use.
package trim
