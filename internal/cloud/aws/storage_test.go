package aws_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
)

// s3 is a server with one bucket, by the documented answers of S3.
type s3 struct {
	names []string
	// lies are names that a listing has though nobody asked for them.
	lies  []string
	asked []string
	// plain makes listings have unescaped names, as some other servers do.
	plain bool
	// large is how many bytes the object with this name has.
	large int64
}

func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Method+" "+r.URL.EscapedPath())
	fail := func(code int, word string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>in a test</Message></Error>", word)
	}
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/s3/aws4_request") || r.Header.Get("X-Amz-Content-Sha256") == "" || r.Method != http.MethodGet:
		fail(http.StatusForbidden, "AccessDenied")
	case strings.HasPrefix(r.URL.Path, "/secret/"):
		fail(http.StatusForbidden, "AccessDenied")
	case !strings.HasPrefix(r.URL.Path, "/logs/"):
		fail(http.StatusNotFound, "NoSuchBucket")
	case r.URL.Path == "/logs/":
		s.list(w, r.URL.Query())
	case r.URL.Path == "/logs/large":
		_, _ = io.CopyN(w, rand.NewChaCha8([32]byte{1}), s.large)
	case slices.Contains(s.names, strings.TrimPrefix(r.URL.Path, "/logs/")):
		_, _ = io.WriteString(w, "content of "+r.URL.Path)
	default:
		fail(http.StatusNotFound, "NoSuchKey")
	}
}

func (s *s3) list(w http.ResponseWriter, q url.Values) {
	type content struct {
		Key, LastModified, ETag string
		Size                    int
	}
	var page struct {
		XMLName      xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
		IsTruncated  bool
		EncodingType string
		Contents     []content
	}
	escaped := url.QueryEscape
	if page.EncodingType = "url"; s.plain {
		page.EncodingType, escaped = "", func(n string) string { return n }
	}
	for _, n := range append(slices.Clone(s.names), s.lies...) {
		if !slices.Contains(s.lies, n) && (!strings.HasPrefix(n, q.Get("prefix")) || n <= q.Get("start-after")) {
			continue
		}
		if len(page.Contents) == 3 {
			page.IsTruncated = true
			break
		}
		page.Contents = append(page.Contents, content{escaped(n), "2030-01-02T03:04:05.000Z", `"tag"`, len(n)})
	}
	_ = xml.NewEncoder(w).Encode(page)
}

// TestStorage lists and reads objects, by pages, with names that have to be escaped, and says what
// is wrong in the classes of all calls.
func TestStorage(t *testing.T) {
	t.Parallel()
	s := &s3{}
	for i := range 8 {
		s.names = append(s.names, fmt.Sprintf("a/day=%d/file (%d)+é.log.gz", i, i))
	}
	server := httptest.NewServer(s)
	defer server.Close()
	said := map[cloud.Class]int{}
	p, err := aws.New(aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIDEXAMPLE", AccessKeySecret: "secret"}, Region: "eu-west-1", Endpoint: server.URL,
		Admit: func(context.Context, string, string, string) (func(cloud.Class), error) {
			return func(c cloud.Class) { said[c]++ }, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	bucket := cloud.Bucket{Name: "logs"}
	var got []string
	for page, pages := "", 0; page != "" || pages == 0; pages++ {
		s.plain = pages%2 == 1
		var list []cloud.StoredObject
		if list, page, err = p.Objects(t.Context(), bucket, "a/", page); err != nil || pages > 9 {
			t.Fatal(err, pages)
		}
		for _, o := range list {
			if o.Size != int64(len(o.Name)) || o.Tag != `"tag"` || !o.Changed.Equal(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)) {
				t.Errorf("%+v", o)
			}
			got = append(got, o.Name)
		}
	}
	if !slices.Equal(got, s.names) {
		t.Errorf("%q, want %q", got, s.names)
	}
	body, err := p.Object(t.Context(), bucket, s.names[2])
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(body)
	if _ = body.Close(); err != nil || string(text) != "content of /logs/"+s.names[2] {
		t.Errorf("%q, %v", text, err)
	}
	class := func(err error) string {
		var e *cloud.Error
		if !errors.As(err, &e) {
			return fmt.Sprint(err)
		}
		return fmt.Sprint(e.Class, e.Code, e.Denied)
	}
	_, _, missing := p.Objects(t.Context(), cloud.Bucket{Name: "other"}, "", "")
	_, denied := p.Object(t.Context(), cloud.Bucket{Name: "secret"}, "x")
	_, gone := p.Object(t.Context(), bucket, "x")
	_, _, region := p.Objects(t.Context(), cloud.Bucket{Name: "logs", Region: "us-east-1"}, "", "")
	for i, c := range []struct {
		err  error
		want string
	}{{missing, "TerminalNoSuchBucketfalse"}, {denied, "AuthAccessDeniedtrue"}, {gone, "TerminalNoSuchKeyfalse"}, {region, "AuthAccessDeniedtrue"}} {
		if strings.ReplaceAll(class(c.err), " ", "") != c.want {
			t.Errorf("%d: %s, want %s", i, class(c.err), c.want)
		}
	}
	if said[""] != 4 || said[cloud.Auth] != 2 || said[cloud.Terminal] != 2 {
		t.Errorf("callers that share the rate read %v", said)
	}
	for _, size := range []int64{1 << 20, cloud.MostObjectBytes, cloud.MostObjectBytes + 1} {
		s.large = size
		body, err := p.Object(t.Context(), bucket, "large")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, body)
		_ = body.Close()
		if size <= cloud.MostObjectBytes && (err != nil || n != size) || size > cloud.MostObjectBytes && err == nil {
			t.Errorf("of %d bytes %d are read: %v", size, n, err)
		}
	}
	for _, lie := range []string{"b/elsewhere", "a/" + strings.Repeat("x", 2000)} {
		s.names, s.lies = nil, []string{lie}
		if list, _, err := p.Objects(t.Context(), bucket, "a/", ""); err == nil {
			t.Errorf("a listing with %.20s is taken: %v", lie, list)
		}
	}
	s.lies = []string{"a/1"}
	if list, _, err := p.Objects(t.Context(), bucket, "a/", "a/1"); err == nil {
		t.Errorf("a listing that begins again is taken: %v", list)
	}
}

// TestStorageOfAnotherTime: S3 takes signatures of its own time only, which its answers tell. It is
// learned with the first refusal, and the reader is told.
func TestStorageOfAnotherTime(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{0, 10 * time.Second, 2 * time.Hour, -26 * time.Hour} {
		s, refused := &s3{names: []string{"a/1"}}, 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			theirs := time.Now().Add(by)
			w.Header().Set("Date", theirs.UTC().Format(http.TimeFormat))
			if signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date")); err != nil || theirs.Sub(signed).Abs() > 15*time.Minute {
				refused++
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, "<Error><Code>RequestTimeTooSkewed</Code><Message>in a test</Message></Error>")
				return
			}
			s.ServeHTTP(w, r)
		}))
		defer server.Close()
		p, err := aws.New(aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIDEXAMPLE", AccessKeySecret: "secret"}, Region: "eu-west-1", Endpoint: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if list, _, err := p.Objects(t.Context(), cloud.Bucket{Name: "logs"}, "a/", ""); err != nil || len(list) != 1 {
				t.Errorf("by %s: %v, %v", by, list, err)
			}
		}
		want, once := time.Duration(0), 0
		if by.Abs() > time.Minute {
			want, once = by, 1
		}
		if p.Ahead() != want || refused != once {
			t.Errorf("by %s: %s ahead, %d times refused", by, p.Ahead(), refused)
		}
	}
}
