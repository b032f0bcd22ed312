package aws_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// TestWhatIsNotUnderstoodIsShown: where something else answers than the cloud, the error names the
// call, the URL, the status and the first line of what came back, without what would do more to a
// terminal than print, and never much.
func TestWhatIsNotUnderstoodIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
		class  cloud.Class
	}{
		"a proxy":         {http.StatusBadGateway, "\n<html><title>Squid: \x1b[2Jno route</title>\n<body>", "502 Bad Gateway: <html><title>Squid: [2Jno route</title>", cloud.Unavailable},
		"a login":         {http.StatusForbidden, "please log in\nsecond line", "403 Forbidden: please log in", cloud.Auth},
		"nothing":         {http.StatusNotFound, "", "404 Not Found and no text", cloud.Terminal},
		"JSON":            {http.StatusBadRequest, `{"error": "wrong service"}`, `400 Bad Request: {"error": "wrong service"}`, cloud.Terminal},
		"a redirect":      {http.StatusMovedPermanently, "moved", "301 Moved Permanently: moved", cloud.Terminal},
		"a long line":     {http.StatusBadRequest, strings.Repeat("x", 100_000), "400 Bad Request: " + strings.Repeat("x", cloud.MaxWords), cloud.Terminal},
		"XML of its kind": {http.StatusBadRequest, "<?xml version=\"1.0\"?>\n<Oops/>", "400 Bad Request: <Oops/>", cloud.Terminal},
	} {
		server := record(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		p, err := aws.New(aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: "eu-west-1", Endpoint: server.URL,
			MaxAttempts: 1, UserAgent: "t"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.OwnerID(t.Context())
		want := "GetCallerIdentity (" + string(c.class) + "): POST " + server.URL + "/ was answered with " + c.want
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
	}
}

// TestChosenEndpointsAreNotRead: an account whose endpoint is one of many that a rule allows learns
// the status and nothing of the text, whatever answers there; one that the operator names is told
// as before. An answer in the words of the cloud is the endpoint's own.
func TestChosenEndpointsAreNotRead(t *testing.T) {
	const secret = "root:x:0:0"
	server := record(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, secret+"\nmore")
	})
	host := strings.TrimPrefix(server.URL, "http://")
	for rule, shown := range map[string]bool{"loopback": false, "127.0.0.0/8": false, "127.0.0.1": true, host: true, "127.0.0.1/32": false} {
		rules, err := egress.Parse([]string{rule})
		if err != nil {
			t.Fatal(err)
		}
		p, err := aws.New(aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: "eu-west-1", Endpoint: server.URL,
			MaxAttempts: 1, UserAgent: "t", Allowed: &rules})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.OwnerID(t.Context())
		if err == nil || strings.Contains(err.Error(), secret) != shown || !strings.Contains(err.Error(), "403 Forbidden") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// TestErrorsNameWhatWasAsked: an error with a code of the cloud names the call, the URL and the
// status as well, and where the cloud has no words for its code, the first line of what came back.
// What stands in the query of the URL is not told.
func TestErrorsNameWhatWasAsked(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"a code with words": {http.StatusForbidden, `<ErrorResponse><Error><Code>InvalidClientTokenId</Code><Message>The security token is invalid.</Message></Error><RequestId>r-1</RequestId></ErrorResponse>`,
			"GetCallerIdentity: InvalidClientTokenId (Auth): The security token is invalid. [POST URL/: 403 Forbidden] [request r-1]"},
		"a code without words": {http.StatusForbidden, "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>\nmore",
			"GetCallerIdentity: AccessDenied (Auth): POST URL/ was answered with 403 Forbidden: <ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"},
		"neither": {http.StatusBadRequest, "<ErrorResponse><Error/></ErrorResponse>",
			"GetCallerIdentity (Terminal): POST URL/ was answered with 400 Bad Request: <ErrorResponse><Error/></ErrorResponse>"},
	} {
		server := record(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/xml")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		p, err := aws.New(aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: "eu-west-1", Endpoint: server.URL,
			MaxAttempts: 1, UserAgent: "t"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.OwnerID(t.Context())
		if want := strings.ReplaceAll(c.want, "URL", server.URL); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
	}
}
