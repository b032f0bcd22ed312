// Package codec translates between the parameters and elements of the EC2 query protocol and the
// objects of package aws.
//
// It owns the form of each object in a request and in an answer, the filters that the describe
// actions know, and the errors of the service with their HTTP statuses. It promises that a value
// which the service refuses is refused with the code of the service, and that an answer has the
// elements of the service in its order. It does not know which action is running, and changes no
// world.
//
// Everything here is pure, and may be used by any number of goroutines.
package codec
