package failure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/nephele-io/nephele/internal/cloud"
)

// firstLine is how much of an answer is looked at for its first line.
const firstLine = 512

// answerError is an error with what was asked and what came back, for when the cloud says nothing
// that can be understood: a proxy that answers in its place, or an endpoint that is something else.
type answerError struct {
	err    error
	method string
	// url has no query: that may hold a secret.
	url    string
	status int
	line   string
	// hidden is set if the text is not to be shown.
	hidden bool
}

func (e *answerError) Error() string { return e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }

// told says what came back.
func (e *answerError) told() string {
	text := fmt.Sprintf("%s %s was answered with %d %s", e.method, e.url, e.status, http.StatusText(e.status))
	switch {
	case e.hidden:
		return strings.TrimSpace(text) + "; what else it says is shown if --allowed-endpoints names this host itself"
	case e.line == "":
		return strings.TrimSpace(text) + " and no text"
	}
	return strings.TrimSpace(text) + ": " + e.line
}

// asked says what was asked and with which status that was answered.
func (e *answerError) asked() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s: %d %s", e.method, e.url, e.status, http.StatusText(e.status)))
}

// worded reports whether an error of the SDK has a message of the cloud. An error with only a code
// is shown with the answer.
func worded(api smithy.APIError) bool {
	return api.ErrorMessage() != "" && api.ErrorMessage() != "UnknownError"
}

// understood reports whether an error of the SDK has words of the cloud: a code of its own, or a
// message.
func understood(api smithy.APIError) bool {
	code, message := api.ErrorCode(), api.ErrorMessage()
	return code != "" && code != "UnknownError" || message != "" && message != "UnknownError"
}

// answerKey is where a call keeps what it was answered with.
type answerKey struct{}

// KeepAnswer notes an answer that is an error, and puts the note on the error that is made of it.
// The text is hidden if the operator has not named the endpoint, such as one of many that a range
// allows. Otherwise the author of the account could read answers of other servers there.
func KeepAnswer(stack *middleware.Stack, hidden bool) error {
	outer := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		middleware.DeserializeOutput, middleware.Metadata, error,
	) {
		got := &answerError{}
		out, metadata, err := next.HandleDeserialize(context.WithValue(ctx, answerKey{}, got), in)
		if err != nil && got.status != 0 {
			got.err, err = err, got
		}
		return out, metadata, err
	}
	inner := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		middleware.DeserializeOutput, middleware.Metadata, error,
	) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		got, ok := ctx.Value(answerKey{}).(*answerError)
		answer, is := out.RawResponse.(*smithyhttp.Response)
		if !ok || !is || answer == nil || answer.Response == nil || answer.StatusCode < 300 {
			return out, metadata, err
		}
		got.status, got.hidden = answer.StatusCode, hidden
		if asked, ok := in.Request.(*smithyhttp.Request); ok && asked.Request != nil && asked.URL != nil {
			got.method, got.url = asked.Method, asked.URL.Scheme+"://"+asked.URL.Host+asked.URL.Path
		}
		if answer.Body != nil && !got.hidden {
			body := bufio.NewReaderSize(answer.Body, firstLine)
			head, peekErr := body.Peek(firstLine)
			if peekErr == nil || errors.Is(peekErr, io.EOF) {
				got.line = lineOf(head)
			}
			answer.Body = struct {
				io.Reader
				io.Closer
			}{body, answer.Body}
		}
		return out, metadata, err
	}
	if err := stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("NameAnswer", outer), middleware.Before); err != nil {
		return err
	}
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("KeepAnswer", inner), middleware.After)
}

// lineOf is the first line of a text that says something, fit to be shown.
func lineOf(head []byte) string {
	for line := range bytes.Lines(head) {
		if text := strings.TrimSpace(cloud.Words(string(line))); text != "" && !strings.HasPrefix(text, "<?xml") {
			return text
		}
	}
	return ""
}
