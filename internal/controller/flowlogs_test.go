package controller

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows/archive"
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
	computation := explain.Compute(&explain.Objects{Observed: []explain.ObservedAccount{{Key: "ops/aws", Snapshots: []*cloud.Snapshot{snapshot}}}})
	told := events.NewFakeRecorder(10)
	dir := filepath.Join(t.TempDir(), "flows")
	past, err := archive.Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	begin := func() (*flowLogs, *traffic) {
		owners := live.NewOwners()
		tr := &traffic{store: live.New(owners, 0, clk.Now()), owners: owners, clock: clk, past: past}
		f := newFlowLogs(fake.NewClientBuilder().WithScheme(scheme).WithObjects(account).Build(), &reviews{traffic: tr}, told, clk, dir, logr.Discard())
		f.provider = func(key string) (cloud.Provider, bool) { return b, key == "ops/aws" }
		f.look = func(context.Context, string) (*explain.Computation, []cloud.NetworkACL, error) {
			return computation, nil, nil
		}
		return f, tr
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
	b.err = errors.New("access denied")
	for i, want := range []string{"Warning FlowLogsNotRead bucket logs: access denied", ""} {
		if f.round(t.Context()); event() != want {
			t.Errorf("round %d: want %q", i, want)
		}
	}
	b.err = nil
	if f.round(t.Context()); event() != "Normal FlowLogsRead bucket logs is read again" {
		t.Error("that it is read again is not told")
	}
	query := func(tr *traffic) (out string) {
		q := &analysis.FlowQuery{Spec: analysis.FlowQuerySpec{Since: &metav1.MicroTime{Time: noon.Add(-time.Hour)}}}
		if err := tr.query(q, apiserver.Sight{All: true}); err != nil {
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
