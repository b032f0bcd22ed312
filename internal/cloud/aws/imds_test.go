package aws

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
)

// metadata is a metadata service as an instance sees it.
type metadata struct {
	roles, credentials string
	// broken is a path that fails.
	broken string
}

func (m metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const base = "/latest/meta-data/iam/security-credentials/"
	switch {
	case m.broken != "" && r.URL.Path == m.broken:
		http.Error(w, "secret of the error page", http.StatusInternalServerError)
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "":
		_, _ = w.Write([]byte("session"))
	case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
		http.Error(w, "no session", http.StatusUnauthorized)
	case r.URL.Path == base && m.roles == "":
		http.NotFound(w, r)
	case r.URL.Path == base:
		_, _ = w.Write([]byte(m.roles))
	case r.URL.Path == base+"nephele":
		_, _ = w.Write([]byte(m.credentials))
	default:
		http.NotFound(w, r)
	}
}

func TestInstanceProfile(t *testing.T) {
	t.Parallel()
	good := metadata{roles: "nephele", credentials: `{"Code":"Success","LastUpdated":"2026-01-02T03:04:05Z","Type":"AWS-HMAC","AccessKeyId":"ASIAX",
		"SecretAccessKey":"hidden","Token":"session-token","Expiration":"2026-01-02T09:04:05Z"}`}
	for name, c := range map[string]struct {
		service metadata
		want    string // the error; empty means none
	}{
		"profile":      {good, ""},
		"two lines":    {metadata{roles: "nephele\n", credentials: good.credentials}, ""},
		"no profile":   {metadata{}, "404"},
		"no token":     {metadata{broken: "/latest/api/token"}, "PUT /latest/api/token: 500"},
		"expired role": {metadata{roles: "nephele", credentials: `{"Code":"AssumeRoleUnauthorizedAccess","Message":"the role\nmay not"}`}, "AssumeRoleUnauthorizedAccess the rolemay not"},
		"no JSON":      {metadata{roles: "nephele", credentials: `<html>hidden</html>`}, "no credentials for role nephele"},
	} {
		server := httptest.NewServer(c.service)
		p, err := ambient(awssdk.Config{}, func(k string) string {
			return map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.URL + "/"}[k]
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Retrieve(t.Context())
		server.Close()
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "error page") {
				t.Errorf("%s: %v; want %q", name, err, c.want)
			}
		case err != nil || got.AccessKeyID != "ASIAX" || got.SecretAccessKey != "hidden" || got.SessionToken != "session-token" ||
			!got.CanExpire || !got.Expires.Equal(time.Date(2026, 1, 2, 9, 4, 5, 0, time.UTC)):
			t.Errorf("%s: %+v, %v", name, got.AccessKeyID, err)
		}
	}
}
