package cloud

import "fmt"

// NotGrantedError is wrapped by errors about an account that asks for what the operator of the
// controller has not granted it. It is found out before anything is sent.
type NotGrantedError struct {
	// Message says what is missing and how to give it.
	Message string
	// Err is what it was found out by; may be nil.
	Err error
}

// Error implements error.
func (e *NotGrantedError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *NotGrantedError) Unwrap() error { return e.Err }

// BoundError is wrapped by errors about an account that has more to say than is listened to.
// Nothing of it is believed then.
type BoundError struct {
	// What is too large, as in "the answer is larger than".
	What string
	// Bound is the number that was exceeded, of Unit.
	Bound int64
	Unit  string
	// Flag is the flag of the controller that sets the bound; empty for bounds that are fixed.
	Flag string
}

// Error implements error.
func (e *BoundError) Error() string {
	text := fmt.Sprintf("%s more than %d %s", e.What, e.Bound, e.Unit)
	if e.Flag != "" {
		text += ", the bound that " + e.Flag + " sets"
	}
	return text
}

// Bounds are how much is taken from one account. Zero fields mean the defaults of the adapter.
type Bounds struct {
	// AnswerBytes bounds one answer, as it is when it is unpacked.
	AnswerBytes int64
	// Pages bounds the answers to one question.
	Pages int
	// Objects bounds what is known of all regions of the account together. An object of more than a
	// kilobyte, as a group with many rules, counts once per kilobyte.
	Objects int
}
