package azure_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/sim/arm"
)

// blobs is a server with one container, by the documented answers of Azure.
type blobs struct {
	names []string
	lie   string
}

func (s *blobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(code int, word string) {
		w.Header().Set("x-ms-error-code", word)
		w.WriteHeader(code)
		fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>%s</Code><Message>in a test</Message></Error>", word)
	}
	q := r.URL.Query()
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") || r.Header.Get("x-ms-version") == "" || r.Method != http.MethodGet:
		fail(http.StatusForbidden, "AuthorizationPermissionMismatch")
	case r.URL.Path == "/logs" && q.Get("comp") == "list" && q.Get("restype") == "container":
		s.list(w, q.Get("prefix"), q.Get("delimiter"), q.Get("marker"))
	case !strings.HasPrefix(r.URL.Path, "/logs"):
		fail(http.StatusNotFound, "ContainerNotFound")
	case slices.Contains(s.names, strings.TrimPrefix(r.URL.Path, "/logs/")):
		_, _ = io.WriteString(w, "content of "+r.URL.Path)
	default:
		fail(http.StatusNotFound, "BlobNotFound")
	}
}

func (s *blobs) list(w http.ResponseWriter, prefix, delimiter, marker string) {
	type properties struct {
		LastModified string `xml:"Last-Modified"`
		Etag         string
		Size         int `xml:"Content-Length"`
	}
	type blob struct {
		Name       string
		Properties properties
	}
	var page struct {
		XMLName    xml.Name                `xml:"EnumerationResults"`
		Blob       []blob                  `xml:"Blobs>Blob"`
		BlobPrefix []struct{ Name string } `xml:"Blobs>BlobPrefix"`
		NextMarker string
	}
	seen := map[string]bool{}
	for _, n := range s.names {
		if !strings.HasPrefix(n, prefix) || n <= marker {
			continue
		}
		if len(page.Blob)+len(page.BlobPrefix) == 2 {
			page.NextMarker = marker
			break
		}
		marker = n
		if rest := n[len(prefix):]; delimiter != "" && strings.Contains(rest, delimiter) {
			folder := prefix + rest[:strings.Index(rest, delimiter)+1]
			if !seen[folder] {
				page.BlobPrefix = append(page.BlobPrefix, struct{ Name string }{folder})
			}
			seen[folder], marker = true, folder+"\xff"
			continue
		}
		page.Blob = append(page.Blob, blob{n, properties{"Wed, 02 Jan 2030 03:04:05 GMT", "0x8D", len(n)}})
	}
	if s.lie != "" {
		page.Blob, page.NextMarker = []blob{{s.lie, properties{"Wed, 02 Jan 2030 03:04:05 GMT", "0x8D", 1}}}, ""
	}
	_ = xml.NewEncoder(w).Encode(page)
}

// TestStorage lists and reads blobs, by pages, and folders; hosts that are none of Azure's and not
// allowed see no token.
func TestStorage(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.server.Config.Handler = arm.NewHandler(arm.Config{World: l.world, Clock: func() time.Time { return l.now }, Faults: l.faults, Journal: l.journal, Audiences: []string{"https://storage.azure.com"}})
	s := &blobs{}
	for i := range 5 {
		s.names = append(s.names, fmt.Sprintf("flowLogResourceID=/S_%d/N W/y=2030/PT1H.json", i/2), fmt.Sprintf("flowLogResourceID=/S_%d/N W/y=2030/q=%d.json", i/2, i))
	}
	slices.Sort(s.names)
	s.names = slices.Compact(s.names)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", l.now.Add(2*time.Hour).UTC().Format(http.TimeFormat))
		s.ServeHTTP(w, r)
	}))
	defer server.Close()
	a := l.account()
	at := cloud.Bucket{Name: server.URL + "/logs"}
	var got []string
	for page, pages := "", 0; page != "" || pages == 0; pages++ {
		list, next, err := a.Objects(t.Context(), at, "flowLogResourceID=/", page)
		if err != nil || pages > 9 {
			t.Fatal(err, pages)
		}
		for _, o := range list {
			if got = append(got, o.Name); o.Size != int64(len(o.Name)) || o.Tag != "0x8D" || !o.Changed.Equal(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)) {
				t.Errorf("%+v", o)
			}
		}
		page = next
	}
	if !slices.Equal(got, s.names) {
		t.Errorf("%q, want %q", got, s.names)
	}
	if a.Ahead() != 2*time.Hour {
		t.Errorf("its clock is %s ahead", a.Ahead())
	}
	folders, err := a.Folders(t.Context(), at, "flowLogResourceID=/")
	if want := []string{"flowLogResourceID=/S_0/", "flowLogResourceID=/S_1/", "flowLogResourceID=/S_2/"}; err != nil || !slices.Equal(folders, want) {
		t.Errorf("%q, %v, want %q", folders, err, want)
	}
	body, err := a.Object(t.Context(), at, s.names[1])
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(body)
	if _ = body.Close(); err != nil || string(text) != "content of /logs/"+s.names[1] {
		t.Errorf("%q, %v", text, err)
	}
	for what, bucket := range map[string]string{"no container": server.URL + "/other", "no URL": "logs", "no path": server.URL, "http": "http://x/logs"} {
		if _, err := a.Object(t.Context(), cloud.Bucket{Name: bucket}, "x"); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	s.lie = "elsewhere"
	if list, _, err := a.Objects(t.Context(), at, "flowLogResourceID=/", ""); err == nil {
		t.Errorf("a listing of something else is taken: %v", list)
	}
	asked := 0
	public, err := azure.New(azure.Config{Credential: l.config().Credential, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Host, "blob") || strings.Contains(r.URL.Host, "evil") {
			asked++
		}
		return nil, io.ErrUnexpectedEOF
	}), MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"evil.example", "acme.blob.core.windows.net.evil.example", "evil.example#.blob.core.windows.net", "acme.file.core.windows.net"} {
		if _, err := public.Object(t.Context(), cloud.Bucket{Name: "https://" + host + "/logs"}, "x"); err == nil || asked > 0 {
			t.Errorf("%s: %v, asked %d times", host, err, asked)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
