package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// planted are the secrets that the test hides. None has a form that another one's pattern would
// find.
var planted = map[string]string{
	"key":      "AKIAPLANTEDPLANTED01",
	"secret":   "pL4nt3d/secret+of+the+account",
	"session":  "FwoGZXIvYXdzPlantedSession",
	"password": "hunter2hunter2",
	"jwt":      "eyJhbGciOiJSUzI1NiJ9.cGxhbnRlZA.c2lnbmF0dXJl",
	"pem":      "MIIEplantedPrivateKeyBytes",
	"inURL":    "urlpassw0rd",
	"signed":   "deadbeefplantedsignature",
	"whole":    "plantedInLastApplied",
	"tag":      "plantedTagValue",
	"bearer":   "opaqueBearerPlanted",
}

// hiding are objects with a secret in every place that somebody could think of.
func hiding() []client.Object {
	credentials, _ := json.Marshal(map[string]string{"accessKeyId": planted["key"], "accessKeySecret": planted["secret"], "sessionToken": planted["session"]})
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "cloud", Name: name, Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"note":"` + planted["whole"] + `"}`, "nephele.io/break-glass": "said " + planted["secret"]}}
	}
	return []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "keys"}, Data: map[string][]byte{"credentials": credentials}},
		&cloudv1.CloudProviderAccount{ObjectMeta: meta("real"), Spec: cloudv1.CloudProviderAccountSpec{AWSConfig: &cloudv1.CloudProviderAccountAWSConfig{
			SecretRef: &cloudv1.SecretReference{
				Namespace: "cloud",
				Name:      "keys",
				Key:       "credentials",
			},
			Region:   []string{"eu-west-1"},
			Endpoint: "https://me:" + planted["inURL"] + "@ec2.example.com",
		}},
			Status: cloudv1.CloudProviderAccountStatus{Error: "AuthFailure: " + planted["key"] + " at https://x/?X-Amz-Signature=" + planted["signed"] + "&a=b"}},
		&cloudv1.VirtualMachine{ObjectMeta: meta("vm-visible"), Spec: cloudv1.VirtualMachineSpec{Tags: map[string]string{"db-password": planted["tag"], "role": "visible-role"}},
			Status: cloudv1.VirtualMachineStatus{UnimportedTags: []cloudv1.UnimportedTag{{Key: "api_key", Value: planted["tag"]}},
				Conditions: []metav1.Condition{{Type: "Realized", Message: "header Authorization: Bearer " + planted["bearer"]}}}},
		&v1beta1.NetworkPolicy{ObjectMeta: meta("policy"), Status: v1beta1.NetworkPolicyStatus{Conditions: []v1beta1.NetworkPolicyCondition{{Message: "token " + planted["jwt"]}}}},
		&eventsv1.Event{ObjectMeta: meta("event"), Note: `password="` + planted["password"] + `" and accessKeySecret: ` + planted["secret"]},
	}
}

func bundleOf(t *testing.T, limit int64, sources ...Source) (*Contents, string, int64) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var packed bytes.Buffer
	contents, err := Write(
		t.Context(),
		&packed,
		Options{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(hiding()...).Build(), Sources: sources, MaxBytes: limit, Now: time.Now},
	)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	size := int64(0)
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return contents, all.String(), size
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		size += int64(len(text))
		all.WriteString("== " + h.Name + "\n" + string(text))
	}
}

func text(name, content string) Source {
	return Source{Name: name, Read: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}
}

// TestNoSecretInTheBundle: what is planted in objects, events, logs, metrics and the plan is not
// found in the bundle, and what is no secret is.
func TestNoSecretInTheBundle(t *testing.T) {
	logs, err := Logs(fstest.MapFS{"controller.log": {Data: []byte("visible line\nsession_token=" + planted["session"] + " {\"password\":\"" + planted["password"] + "\"}\n" +
		"-----BEGIN RSA PRIVATE KEY-----\n" + planted["pem"] + "\n-----END RSA PRIVATE KEY-----\nlast line\n")}, "kubeconfig": {Data: []byte("not a log")}}, time.Time{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	contents, all, _ := bundleOf(
		t,
		10<<20,
		append(logs, text("metrics.txt", `calls{token="`+planted["jwt"]+`"} 1`), text("plan.json", `{"clientSecret": "`+planted["password"]+`", "shown": "visible-plan"}`))...)
	for name, secret := range planted {
		if at := strings.Index(all, secret); at >= 0 {
			t.Errorf("the %s is in it: ...%s...", name, all[max(0, at-80):at+len(secret)])
		}
	}
	for _, visible := range []string{"vm-visible", "visible-role", "visible line", "last line", "visible-plan", "ec2.example.com", `"name":"keys"`, "nephele.io/break-glass"} {
		if !strings.Contains(all, visible) {
			t.Errorf("%q is missing", visible)
		}
	}
	if strings.Contains(all, "not a log") || strings.Contains(strings.Join(contents.Files, " "), "secret") {
		t.Errorf("files %q", contents.Files)
	}
}

// TestBundleIsBounded: what is too large is cut, and that is told.
func TestBundleIsBounded(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	contents, all, size := bundleOf(t, 64<<10, text("logs/long.log", strings.Repeat(line, 100_000)+"the end\n"))
	if size > 64<<10+1<<12 {
		t.Errorf("%d bytes", size)
	}
	if !strings.Contains(all, "the end") || !strings.Contains(strings.Join(contents.LeftOut, "\n"), "logs/long.log: its beginning") {
		t.Errorf("left out %q", contents.LeftOut)
	}
}

// TestRecentLogs: lines before a time are left out, whatever wrote the log.
func TestRecentLogs(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 10_000)
	for name, c := range map[string]struct{ log, want string }{
		"slog":        {"time=2026-01-02T09:59:59.999Z level=INFO msg=old\ngoroutine 1\ntime=2026-01-02T10:00:00.000Z level=INFO msg=new\nat last\n", "time=2026-01-02T10:00:00.000Z level=INFO msg=new\nat last\n"},
		"audit":       {`{"call":"old","time":"2026-01-02T11:59:59+02:00"}` + "\n" + `{"call":"new","time":"2026-01-02T12:00:01+02:00"}`, `{"call":"new","time":"2026-01-02T12:00:01+02:00"}`},
		"klog":        {"I1231 23:00:00.000000       1 of the last year\nW0102 10:30:00.000000       1 new\n", "W0102 10:30:00.000000       1 new\n"},
		"all old":     {"time=2026-01-01T00:00:00Z msg=old\n", ""},
		"no time":     {"nothing\nat all", ""},
		"a long line": {"time=2026-01-01T00:00:00Z msg=" + long + " time=2026-01-02T11:00:00Z\ntime=2026-01-02T11:00:00Z msg=" + long + "\n", "time=2026-01-02T11:00:00Z msg=" + long + "\n"},
		"empty":       {"", ""},
	} {
		sources, err := Logs(fstest.MapFS{"a.log": {Data: []byte(c.log)}}, now.Add(-2*time.Hour), now)
		if err != nil || len(sources) != 1 {
			t.Fatal(err, len(sources))
		}
		r, err := sources[0].Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHead: of a text that is too large the whole lines at its beginning are kept.
func TestHead(t *testing.T) {
	computed := text("computed/networkpolicies.jsonl", "the first\n"+strings.Repeat(strings.Repeat("y", 99)+"\n", 100_000))
	computed.Head = true
	contents, all, _ := bundleOf(t, 64<<10, computed)
	if !strings.Contains(all, "the first\n") || !strings.Contains(all, "y\n==") || !slices.Contains(contents.LeftOut, "computed/networkpolicies.jsonl: its end") {
		t.Errorf("left out %q; %.200s", contents.LeftOut, all)
	}
}

// TestPackedIsScrubbed: secrets are found in what is packed, what cannot be looked into is left
// out, and signatures in addresses are secrets.
func TestPackedIsScrubbed(t *testing.T) {
	pack := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}
	secret := "ThePlantedSecret"
	whole := pack(`{"spec":{"password":"` + secret + `","shown":"visible"}}`)
	for name, c := range map[string]struct{ text, shown string }{
		"object":           {whole, "visible"},
		"packed twice":     {pack(`{"a":"` + whole + `"}`), "visible"},
		"text":             {pack("password=" + secret + "\nvisible line"), "visible line"},
		"cut":              {whole[:len(whole)/8*4], removed},
		"too large":        {pack(strings.Repeat("x", maxPacked) + " password=" + secret), removed},
		"bomb":             {pack(`["visible"` + strings.Repeat(`,"`+pack(strings.Repeat("x", maxPacked/10))+`"`, 100) + `]`), removed},
		"address of Azure": {"https://a.blob.example.com/c?sv=1&sig=" + secret + "%3D&visible=1", "visible=1"},
		"of Google":        {"https://a.example.com/c?visible=1&X-Goog-Signature=" + secret, "visible=1"},
		"in JSON":          {`{"u":"https://a.example.com/c?visible=1\u0026sig=` + secret + `"}`, "visible=1"},
		"account":          {"DefaultEndpointsProtocol=visible;AccountKey=" + secret, "visible"},
		"not packed":       {"H4sI is how it begins, visible", "visible"},
	} {
		got, err := json.Marshal(newScrubber(nil).value(map[string]any{"compressed": c.text}))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), secret) || !strings.Contains(string(got), c.shown) {
			t.Errorf("%s: %.300s", name, got)
		}
		if len(got) > maxPacked+1<<20 {
			t.Errorf("%s: %d bytes", name, len(got))
		}
		if strings.Contains(string(got), "H4sIA") {
			t.Errorf("%s: still packed: %.300s", name, got)
		}
	}
}
