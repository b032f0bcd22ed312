package cloud

import (
	"errors"
	"strings"
)

// FailureText is an error for people, without the ids of requests: with them, every attempt would
// look like news. The log has them.
func FailureText(err error) string {
	text := err.Error()
	for {
		before, rest, found := strings.Cut(text, " [request ")
		if !found {
			return text
		}
		_, after, closed := strings.Cut(rest, "]")
		if !closed {
			return text
		}
		text = before + after
	}
}

// FailureKind is what equal failures have in common.
func FailureKind(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Call + " " + e.Code + " " + string(e.Class)
	}
	return FailureText(err)
}
