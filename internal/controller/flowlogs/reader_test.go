package flowlogs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/controller/traffic"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/flows/archive"
	"github.com/nephele-io/nephele/internal/flows/collect"
	"github.com/nephele-io/nephele/internal/flows/live"
)

// logBucket is a cloud with one file of a flow log.
type logBucket struct {
	cloud.Provider
	name, content string
	changed       time.Time
	err           error
	opened        int
}

func (b *logBucket) Objects(_ context.Context, _ cloud.Bucket, prefix, _ string) (out []cloud.StoredObject, _ string, err error) {
	if strings.HasPrefix(b.name, prefix) {
		out = []cloud.StoredObject{{Name: b.name, Size: int64(len(b.content)), Changed: b.changed}}
	}
	return out, "", b.err
}

func (b *logBucket) Object(context.Context, cloud.Bucket, string) (io.ReadCloser, error) {
	b.opened++
	return io.NopCloser(bytes.NewReader([]byte(b.content))), nil
}

// readClouds are clouds with the one account ops/aws, which is read once unread is false.
type readClouds struct {
	bucket   *logBucket
	computed *explain.Computation
	unread   bool
}

func (c *readClouds) Judging(context.Context, string) (*explain.Computation, []cloud.NetworkACL, error) {
	return c.computed, nil, nil
}

func (c *readClouds) Provider(key string) (cloud.Provider, bool) {
	return c.bucket, key == "ops/aws" && !c.unread
}

// TestFlowLogsOfAccounts reads a flow log of an account's bucket into the store, once, also by the
// next controller; what cannot be read is told once, and when it can again.
func TestFlowLogsOfAccounts(t *testing.T) {
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakeClock(noon)
	minute := noon.Add(-10 * time.Minute)
	b := &logBucket{
		name: "AWSLogs/111122223333/vpcflowlogs/eu-west-1/2030/01/02/111122223333_vpcflowlogs_eu-west-1_fl-1_20300102T1155Z_aa.log", changed: noon.Add(-5 * time.Minute),
		content: fmt.Sprintf("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status\n"+
			"2 111122223333 eni-1 192.0.2.7 10.0.0.1 40000 443 6 3 300 %d %d ACCEPT OK\n2 111122223333 eni-1 192.0.2.8 10.0.0.1 40000 22 6 1 40 %d %d REJECT OK\n",
			minute.Unix(), minute.Unix()+60, minute.Unix(), minute.Unix()+60),
	}
	scheme := runtime.NewScheme()
	if err := cloudv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "aws"}, Status: cloudv1.CloudProviderAccountStatus{CloudAccountID: "111122223333"},
		Spec: cloudv1.CloudProviderAccountSpec{AWSConfig: &cloudv1.CloudProviderAccountAWSConfig{Region: []string{"eu-west-1"}, FlowLogs: []cloudv1.AWSFlowLogs{{Bucket: "logs"}}}}}
	snapshot := &cloud.Snapshot{
		Scope:      cloud.Scope{Account: "ops/aws", Region: "eu-west-1"},
		Networks:   []cloud.Network{{ID: "vpc-1"}},
		Groups:     []cloud.Group{{ID: "sg-1", Name: "web", NetworkID: "vpc-1", Rules: []cloud.Rule{{Direction: cloud.Ingress, Match: cloud.Match{Protocol: cloud.TCP, From: 443, To: 443}, Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}}}}},
		Interfaces: []cloud.Interface{{ID: "eni-1", NetworkID: "vpc-1", PrivateIPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, GroupIDs: []string{"sg-1"}}},
	}
	computation := explain.Compute(&input.Objects{Observed: []input.Account{{Key: "ops/aws", Snapshots: []*cloud.Snapshot{snapshot}}}})
	accounts := fake.NewClientBuilder().WithScheme(scheme).WithObjects(account).WithStatusSubresource(account).Build()
	condition := func() string {
		t.Helper()
		var live cloudv1.CloudProviderAccount
		if err := accounts.Get(t.Context(), client.ObjectKeyFromObject(account), &live); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(live.Status.Conditions, cloudv1.ConditionFlowLogsRead)
		if c == nil {
			return ""
		}
		return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
	}
	told := events.NewFakeRecorder(10)
	dir := filepath.Join(t.TempDir(), "flows")
	past, err := archive.Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	clouds := &readClouds{bucket: b, computed: computation, unread: true}
	begin := func() (*Reader, *traffic.Store) {
		tr := traffic.New(0, past, clk)
		return New(accounts, clouds, tr, told, clk, dir, logr.Discard()), tr
	}
	f, tr := begin()
	event := func() string {
		select {
		case e := <-told.Events:
			return e
		default:
			return ""
		}
	}
	if f.round(t.Context()); event() != "" || condition() != "Unknown Pending bucket logs: the account is not read yet" {
		t.Errorf("before the account is read: %s", condition())
	}
	clouds.unread = false
	b.err = &cloud.Error{Class: cloud.Auth, Err: errors.New("access denied")}
	for i, want := range []string{"Warning FlowLogsNotRead bucket logs: " + b.err.Error(), ""} {
		if f.round(t.Context()); event() != want {
			t.Errorf("round %d: want %q", i, want)
		}
	}
	if got := condition(); !strings.HasPrefix(got, "False AuthFailed bucket logs: ") || !strings.Contains(got, "access denied") {
		t.Error(got)
	}
	b.err = nil
	if f.round(t.Context()); event() != "Normal FlowLogsRead bucket logs is read again" {
		t.Error("that it is read again is not told")
	}
	if got := condition(); !strings.HasPrefix(got, "False FieldsMissing bucket logs: flow log fl-1 lacks tcp-flags: which end began a connection is a guess; flow-direction: ") ||
		!strings.Contains(got, "make another one: aws ec2 create-flow-logs --region eu-west-1 ") || !strings.Contains(got, "arn:aws:s3:::logs ") || !strings.Contains(got, "${tcp-flags}") {
		t.Error(got)
	}
	query := func(tr *traffic.Store) (out string) {
		q := &analysis.FlowQuery{Spec: analysis.FlowQuerySpec{Since: &metav1.MicroTime{Time: noon.Add(-time.Hour)}}}
		if err := tr.Query(t.Context(), q, live.Sight{All: true}); err != nil {
			t.Fatal(err)
		}
		for _, x := range q.Status.Flows {
			out += fmt.Sprintf("%s to %d %s by %s %s %d; ", x.From.Address, x.Port, x.Verdict, x.By.Cause, cmp.Or(x.By.Why, "-"), x.Connections)
		}
		return out
	}
	want := "192.0.2.7 to 443 Allow by Group group web, "
	if got := query(tr); !strings.HasPrefix(got, want) || !strings.Contains(got, "192.0.2.8 to 22 Drop by Group") {
		t.Errorf("%s, want %s...", got, want)
	}
	clk.Step(time.Minute)
	f.round(t.Context())
	next, after := begin()
	next.round(t.Context())
	if b.opened != 1 {
		t.Errorf("the file is read %d times", b.opened)
	}
	if got := query(after); got != "" && !strings.Contains(got, "443") {
		t.Error(got)
	}
}

// TestFlowLogsCondition: the worst of all places gives the reason, every place its words.
func TestFlowLogsCondition(t *testing.T) {
	aws := place{account: "ops/aws", bucket: "logs", prefix: "/corp/", owner: "111122223333", regions: "eu-west-1 us-east-1"}
	azure := place{account: "ops/azure", bucket: "https://acme.blob.core.windows.net/logs", owner: "s-1", azure: true}
	denied := &cloud.Error{Class: cloud.Auth, Err: errors.New("no rights")}
	for name, c := range map[string]struct {
		looked []result
		status metav1.ConditionStatus
		reason string
		words  []string
	}{
		"read":            {[]result{{place: aws, there: 1}, {place: azure, there: 1}}, "True", "OK", []string{"bucket logs, container https://acme.blob.core.windows.net/logs is read"}},
		"no files":        {[]result{{place: aws}}, "False", "NoFiles", []string{"of 111122223333", "--region eu-west-1 ", "arn:aws:s3:::logs/corp "}},
		"no files, Azure": {[]result{{place: azure}}, "False", "NoFiles", []string{"az network watcher flow-log create"}},
		"useless":         {[]result{{place: aws, there: 1, missing: []collect.Lacking{{Log: "fl-9", Fields: []string{"srcport"}, Useless: true}}}}, "False", "FieldsMissing", []string{"fl-9 lacks srcport, so it tells nothing"}},
		"one is denied": {[]result{{place: aws, there: 1, missing: []collect.Lacking{{Log: "fl-9", Fields: []string{"tcp-flags: x"}}}}, {place: azure, err: denied}},
			"False", "AuthFailed", []string{"fl-9 lacks", "no rights"}},
		"gone":           {[]result{{place: aws, err: &cloud.Error{Class: cloud.NotFound, Err: errors.New("no such bucket")}}}, "False", "BucketNotFound", nil},
		"throttled":      {[]result{{place: aws, err: &cloud.Error{Class: cloud.Throttled, Err: errors.New("slow down")}}}, "False", "Throttled", nil},
		"away":           {[]result{{place: aws, err: context.DeadlineExceeded}}, "False", "Unreachable", nil},
		"too many words": {[]result{{place: aws, err: errors.New(strings.Repeat("x", 100_000))}}, "False", "Unreachable", nil},
	} {
		got := conditionOf(c.looked)
		if got.Status != c.status || got.Reason != c.reason || len(got.Message) > maxMessage+10 {
			t.Errorf("%s: %+v", name, got)
		}
		for _, w := range c.words {
			if !strings.Contains(got.Message, w) {
				t.Errorf("%s: %q lacks %q", name, got.Message, w)
			}
		}
	}
	if conditionOf(nil) != nil {
		t.Error("an account without buckets has a condition")
	}
}

// TestStateOfAFormerRelease: what a former release has read is known, under its present name.
func TestStateOfAFormerRelease(t *testing.T) {
	f := &Reader{dir: t.TempDir(), places: map[place]*collected{}, log: logr.Discard()}
	p := place{account: "ops/aws", bucket: "logs", region: "eu-west-1"}
	const text = `{"read":{"x":"2030-01-02T12:00:00Z"}}`
	if err := os.WriteFile(f.formerStateOf(p), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if state, err := f.known(p, time.Now()).State(); err != nil || string(state) != text {
		t.Errorf("known is %s, %v", state, err)
	}
	if list, err := os.ReadDir(f.dir); err != nil || len(list) != 1 || filepath.Join(f.dir, list[0].Name()) != f.stateOf(p) {
		t.Errorf("there are %v, %v", list, err)
	}
	if state, err := f.known(place{account: "ops/other"}, time.Now()).State(); err != nil || strings.Contains(string(state), "x") {
		t.Errorf("another account knows %s, %v", state, err)
	}
}

// TestPictureOfTwoEdits: two edits of two objects make another picture, as they do not cancel.
func TestPictureOfTwoEdits(t *testing.T) {
	group := func(n int, generation int64) *v1beta1.Group {
		return &v1beta1.Group{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("uid-%d", n)), Generation: generation}}
	}
	for a := range 10 {
		for b := range a {
			former := map[uint64]string{}
			for x := range int64(10) {
				for y := range int64(10) {
					sum := inputsSum(&explain.Computation{Objects: &input.Objects{Groups: []*v1beta1.Group{group(a, x), group(b, y)}}}, nil)
					if other := former[sum]; other != "" {
						t.Fatalf("groups %d and %d have the same picture at generations %d, %d and %s", a, b, x, y, other)
					}
					former[sum] = fmt.Sprintf("%d, %d", x, y)
				}
			}
		}
	}
}
