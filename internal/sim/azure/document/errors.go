package document

import (
	"fmt"
	"net/http"
	"time"
)

// Error is a refusal in the terms of Azure Resource Manager.
type Error struct {
	Status  int      `json:"status"`
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Details []Detail `json:"details,omitempty"`
	// RetryAfter is what the client is asked to wait; zero if nothing is said.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// Detail is one of the details of an Error.
type Detail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Refuse makes an Error.
func Refuse(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// BadRequest is a refusal of what a request says.
func BadRequest(code, format string, args ...any) *Error {
	return Refuse(http.StatusBadRequest, code, format, args...)
}

// NotFound is the refusal of a request about a resource that is not there.
func NotFound(id ID) *Error {
	return Refuse(http.StatusNotFound, "ResourceNotFound", "The Resource '%s' under resource group '%s' was not found. "+
		"For more details please go to https://aka.ms/ARMResourceNotFoundFix", id.typeAndName(), id.Group)
}

// MissingReference is the refusal of a document that names a resource which is not there.
func MissingReference(missing, from string) *Error {
	return BadRequest("InvalidResourceReference", "Resource %s referenced by resource %s was not found. Please make sure that the referenced "+
		"resource exists, and that both resources are in the same region.", missing, from)
}

// States of operations and of resources.
const (
	Succeeded  = "Succeeded"
	Failed     = "Failed"
	Updating   = "Updating"
	Deleting   = "Deleting"
	InProgress = "InProgress"
)
