// Package failure classifies the errors of AWS, once and nowhere else: codes of services, HTTP
// statuses, lost connections, missing credentials.
//
// It promises that what may have taken effect is never classified as refused, that an error keeps
// its cause, and that the text of an answer is shown only where the endpoint is one that the
// operator vouches for. It has no state.
package failure
