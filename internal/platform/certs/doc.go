// Package certs keeps a small public key infrastructure in a directory: certificate authorities,
// certificates signed by them, and signing keys.
//
// Every file is created when it is first asked for, read again after a restart, and replaced when
// it no longer fits: the key does not belong to the certificate, the authority has changed, a name
// or address is missing, or the end of its life is near. Asking twice gives the same answer, so a
// caller states what it needs at every start and whenever expiry should be checked.
//
// Private keys are readable by the owner only. Files are written under a temporary name and
// renamed, the key before the certificate. So a process killed at any instant leaves either a
// matching pair or one that the next call replaces.
//
// A Store is not safe for concurrent use, and two processes must not share a directory; callers use
// their own lock.
package certs
