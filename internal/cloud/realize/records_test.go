package realize

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/realize/status"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/recordkey"
	"github.com/nephele-io/nephele/internal/platform/keyring"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/calls"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// tagsOf are the tags of a VM's interface.
func (l *lab) tagsOf(vm string) map[string]string {
	l.Helper()
	nics, err := l.region(home).NetworkInterfaces(l.vms[vm].nic)
	if err != nil {
		l.Fatal(err)
	}
	return nics[0].Tags
}

// records is what the last report says of them.
func (l *lab) records() plan.Records {
	r, _ := l.realizer.Report(labAccount)
	if r.Result == nil {
		return plan.Records{}
	}
	return r.Result.Records
}

// keySecret is the Secret with the key.
func (l *lab) keySecret() *corev1.Secret {
	l.Helper()
	s := &corev1.Secret{}
	if err := l.cluster.Get(l.Context(), client.ObjectKey{Namespace: "kube-system", Name: recordkey.SecretName}, s); err != nil {
		l.Fatal(err)
	}
	return s
}

// TestForgedAfterRestart: a record that somebody wrote while no controller ran is not believed by
// the next one, whatever asks for the VM to be given back: it stays under control, others are given
// back, and it is said. When the account's owner has said what it had, it is given that.
func TestForgedAfterRestart(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(l *lab){
		"another group": func(l *lab) { l.tag(l.vms["web-1"].nic, aws.Tags{cloud.TagFormer: l.groupNamed("ops")}) },
		"the record of another one": func(l *lab) {
			l.tag(l.vms["web-1"].nic, aws.Tags(l.tagsOf("web-2")))
		},
		"removed": func(l *lab) { l.untag("web-1", cloud.TagFormer, cloud.TagSignature) },
	} {
		for _, asks := range []plan.Mode{plan.Enforce, plan.Released, plan.BreakGlass, "deleted"} {
			t.Run(name+"/"+string(asks), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, labConfig{})
				before := l.holdings()
				l.engine.PutPolicy(webIn())
				l.publish()
				l.start()
				l.settle()
				held := l.held("web-1")
				l.halt()
				forge(l)
				l.start()
				l.until("it is said", func() bool { return len(l.records().Unproven) == 1 })
				// Whether it belongs to the groups that others admit is not known: that may be cut.
				for line := range strings.Lines(compare(l.actual(), l.wanted())) {
					line = strings.TrimSpace(line)
					if !strings.HasPrefix(line, "web-1 -> ") || !strings.HasSuffix(line, "passes = false, want true") {
						t.Errorf("it is not enforced any more: %s", line)
					}
				}
				switch asks {
				case plan.Enforce:
					l.engine.DeletePolicy(webIn().UID)
					l.publish()
				case "deleted":
					l.accounts.change(func(a *Account) { a.Releasing = true })
				default:
					l.setModes(asks, "web-1", "web-2", "ops-1")
				}
				others := func() bool { return slices.Equal(l.held("web-2"), before.NICs[l.vms["web-2"].nic]) }
				l.until("the others are given back", others)
				if asks == "deleted" {
					l.until("it is said why the account stays", func() bool {
						r, _ := l.realizer.Report(labAccount)
						return r.Err != nil && strings.Contains(r.Err.Error(), "record of former groups") && !l.realizer.Released(labAccount)
					})
				}
				for _, g := range l.held("web-1") {
					if !slices.ContainsFunc(l.ours(), func(o aws.SecurityGroup) bool { return o.ID == g }) {
						t.Errorf("web-1 was given %s, and held %v", g, held)
					}
				}
				r, _ := l.realizer.Report(labAccount)
				if !slices.ContainsFunc(r.Result.Drift, func(d plan.Drift) bool { return d.Object == l.vms["web-1"].nic && d.Kept }) {
					t.Errorf("drift %+v", r.Result.Drift)
				}
				l.accounts.change(func(a *Account) {
					a.Confirmed = map[string][]string{l.vms["web-1"].nic: before.NICs[l.vms["web-1"].nic]}
				})
				l.until("all is given back", func() bool { return gocmp.Equal(before, l.holdings()) })
			})
		}
	}
}

func (l *lab) untag(vm string, keys ...string) {
	l.Helper()
	var list []aws.TagKey
	for _, k := range keys {
		list = append(list, aws.TagKey{Key: k})
	}
	if err := l.region(home).DeleteTags([]string{l.vms[vm].nic}, list); err != nil {
		l.Fatal(err)
	}
}

// TestSignaturePutRight: a signature that somebody changes while we remember the record is drift,
// and put right.
func TestSignaturePutRight(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(l *lab){
		"removed": func(l *lab) { l.untag("web-1", cloud.TagSignature) },
		"changed": func(l *lab) { l.tag(l.vms["web-1"].nic, aws.Tags{cloud.TagSignature: "v1 AAAAAAA"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.settle()
			forge(l)
			l.accounts.observe(t.Context())
			l.until("it is told", func() bool {
				return slices.ContainsFunc(l.sink.list(), func(r status.Report) bool {
					return r.Result != nil && slices.ContainsFunc(r.Result.Drift, func(d plan.Drift) bool {
						return d.Object == l.vms["web-1"].nic && strings.Contains(d.Message, "which proves what to give back")
					})
				})
			})
			l.settle()
			if r := l.records(); r.Signed != 3 || len(r.Unproven) > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestNotBelievedIsNotRemembered: what is not believed does not become what is remembered: neither
// a further forgery nor a record that somebody writes in good faith is believed because of it.
func TestNotBelievedIsNotRemembered(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	l.halt()
	l.untag("web-1", cloud.TagFormer, cloud.TagSignature)
	l.start()
	l.until("it is said", func() bool { return len(l.records().Unproven) == 1 })
	for _, group := range []string{"ops", "web", "db"} {
		l.tag(l.vms["web-1"].nic, aws.Tags{cloud.TagFormer: l.groupNamed(group)})
		l.accounts.observe(t.Context())
		l.since = l.options.Clock.Now()
		l.settle()
		if r := l.records(); len(r.Unproven) != 1 || l.tagsOf("web-1")[cloud.TagSignature] != "" {
			t.Errorf("%s: %+v, tags %v", group, r, l.tagsOf("web-1"))
		}
	}
}

// liveUnsigned has a controller that does not sign enforce a policy, and end.
func (l *lab) liveUnsigned() {
	l.Helper()
	cluster := l.cluster
	l.cluster = nil
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	l.halt()
	l.cluster = cluster
}

// TestUpgradeSigns: records of a controller that did not sign are believed once, signed without
// anything else being done, and from then on no unsigned one is.
func TestUpgradeSigns(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings()
	l.liveUnsigned()
	if l.tagsOf("web-1")[cloud.TagSignature] != "" {
		t.Fatal("the test shows nothing")
	}
	edits := l.server.Journal().Counts()
	l.start()
	l.until("all are signed", func() bool { r := l.records(); return r.Signed == 3 && r.Unsigned == 0 })
	l.settle()
	now := l.server.Journal().Counts()
	for _, action := range []string{"ModifyNetworkInterfaceAttribute", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"} {
		if now[action] != edits[action] {
			t.Errorf("%d %s", now[action]-edits[action], action)
		}
	}
	if n := now["CreateTags"] - edits["CreateTags"]; n != 1 {
		t.Errorf("%d calls to sign three records", n)
	}
	if list := string(l.keySecret().Data["signed"]); !strings.Contains(list, "\n"+labAccount) {
		t.Errorf("the Secret says %q", list)
	}
	l.halt()
	l.untag("web-1", cloud.TagSignature)
	l.start()
	l.until("it is not believed", func() bool { return len(l.records().Unproven) == 1 })
	l.accounts.change(func(a *Account) {
		a.Confirmed = map[string][]string{l.vms["web-1"].nic: before.NICs[l.vms["web-1"].nic]}
	})
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.until("all is given back", func() bool { return gocmp.Equal(before, l.holdings()) })
}

// TestUpgradeBesideADeny: where one interface must not be tagged, which is refused for all that a
// call tags, the records of the others are signed, and signatures stay on.
func TestUpgradeBesideADeny(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"web-1", "web-2"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			l.liveUnsigned()
			l.server.Faults().Add(ec2.Fault{Action: "CreateTags", Code: "UnauthorizedOperation", Status: 403, Times: -1, Match: func(c calls.Call) bool {
				return slices.Contains(slices.Collect(maps.Values(c.Params)), l.vms[denied].nic)
			}})
			l.start()
			l.until("the others are signed", func() bool { r := l.records(); return r.Signed == 2 && r.Unsigned == 1 })
			if r, _ := l.realizer.Report(labAccount); r.NotSigned {
				t.Error("it is said that nothing is signed")
			}
		})
	}
}

// TestKeyIsLost: without the Secret there is a new key. Nothing is given up for that: records are
// believed once more, and signed with it.
func TestKeyIsLost(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	signed := l.tagsOf("web-1")[cloud.TagSignature]
	l.halt()
	old := l.keySecret()
	if err := l.cluster.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	l.start()
	l.until("all are signed anew", func() bool {
		now := l.tagsOf("web-1")[cloud.TagSignature]
		return now != signed && now != "" && l.records().Signed == 3
	})
	l.settle()
	if slices.Equal(l.keySecret().Data["key"], old.Data["key"]) {
		t.Error("the key is the same")
	}
	if d := compare(l.actual(), l.wanted()); d != "" {
		t.Error(d)
	}
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// TestSigningIsNotPermitted: with rights that are older than the tags, enforcement goes on without
// signatures, and the report says so. What is refused is tried again after pauses only, whatever
// else wakes the worker. With the right, after the pause, the records are signed.
func TestSigningIsNotPermitted(t *testing.T) {
	t.Parallel()
	// A clock that goes by itself would play an hour of pauses in every moment of the test.
	clk := clocktesting.NewFakeClock(time.Now())
	l := newLab(t, labConfig{clock: clk, policy: tagKeysOnly(t, cloud.TagFormer+"*", cloud.TagClaim, cloud.TagInstance)})
	for _, vm := range []string{"db-1", "ops-1"} { // and what somebody has planted, and cannot be removed, is in nobody's way
		l.tag(l.vms[vm].nic, aws.Tags{cloud.TagSignature: "v1 AAAAAAA"})
	}
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	if d := compare(l.actual(), l.wanted()); d != "" {
		t.Errorf("not enforced: %s", d)
	}
	r, _ := l.realizer.Report(labAccount)
	if l.tagsOf("web-1")[cloud.TagSignature] != "" || !r.NotSigned {
		t.Errorf("tags %v, said to be not signed: %v", l.tagsOf("web-1"), r.NotSigned)
	}
	if list := string(l.keySecret().Data["signed"]); strings.Contains(list, labAccount) {
		t.Errorf("the Secret says that all are signed: %q", list)
	}
	refused := func(key string) (n int) {
		for _, c := range l.server.Journal().Calls(0) {
			if c.Action == "CreateTags" && c.Code != "" && strings.HasPrefix(c.Params["Tag.1.Key"], key) {
				n++
			}
		}
		return n
	}
	hours := func(n int) {
		t.Helper()
		for range n * 6 {
			clk.Step(10 * time.Minute)
			l.showSnapshots(3)
			l.settle()
		}
	}
	signatures, marks := refused(cloud.TagSignature), refused(cloud.TagRevision)
	hours(3)
	// Each record is refused together once an hour, and then for itself.
	signatures, marks = refused(cloud.TagSignature)-signatures, refused(cloud.TagRevision)-marks
	if most := 3 * (1 + len(l.vms)); signatures < 3 || signatures > most || marks < 3 || marks > 3*6+10 {
		t.Errorf("in three hours %d signatures and %d marks were tried, want from 3 to %d, and from 3 to 28", signatures, marks, most)
	}
	l.halt()
	l.start() // a new process tries again, and goes on as well
	l.settle()
	all := l.server.World().State().Credentials[0]
	all.Policy = documentedRights(t)
	if err := l.server.World().AddCredential(all); err != nil {
		t.Fatal(err)
	}
	hours(2)
	l.until("all are signed", func() bool { r := l.records(); return r.Signed == 3 && r.Unsigned == 0 })
	if list := string(l.keySecret().Data["signed"]); !strings.Contains(list, labAccount) {
		t.Errorf("the Secret does not say that all are signed: %q", list)
	}
}

// TestRefusalIsNoLackOfRights: a tag that is refused for a moment, as by a lock, and a signature
// that somebody has planted where we may not remove it, do not switch signatures off; and a record
// goes with its signature.
func TestRefusalIsNoLackOfRights(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings()
	l.tag(l.vms["ops-1"].nic, aws.Tags{cloud.TagSignature: "v1 AAAAAAA"})
	signs := func(c calls.Call) bool {
		return slices.Contains(slices.Collect(maps.Values(c.Params)), cloud.TagSignature) && !slices.Contains(slices.Collect(maps.Values(c.Params)), l.vms["ops-1"].nic)
	}
	planted := func(c calls.Call) bool {
		return slices.Contains(slices.Collect(maps.Values(c.Params)), l.vms["ops-1"].nic)
	}
	for _, action := range []string{"CreateTags", "DeleteTags"} {
		l.server.Faults().Add(ec2.Fault{Action: action, Code: "UnauthorizedOperation", Status: 403, Times: 1, Match: signs})
	}
	l.server.Faults().Add(ec2.Fault{Action: "DeleteTags", Code: "UnauthorizedOperation", Status: 403, Times: -1, Match: planted})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	signed := func() {
		t.Helper()
		if r, _ := l.realizer.Report(labAccount); r.NotSigned {
			t.Error("it is said that nothing is signed")
		}
	}
	if signed(); l.tagsOf("web-1")[cloud.TagSignature] == "" || l.tagsOf("web-2")[cloud.TagSignature] == "" {
		t.Errorf("tags %v, %v", l.tagsOf("web-1"), l.tagsOf("web-2"))
	}
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.settle()
	signed()
	l.server.Faults().Clear()
	if l.tagsOf("ops-1")[cloud.TagSignature] != "v1 AAAAAAA" {
		t.Errorf("what was planted is %v", l.tagsOf("ops-1"))
	}
	l.untag("ops-1", cloud.TagSignature)
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// TestGivenBackWithoutSignatures: where signing is not permitted, what has no signature is given
// back all the same.
func TestGivenBackWithoutSignatures(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{clock: clocktesting.NewFakeClock(time.Now()), policy: tagKeysOnly(t, cloud.TagFormer+"*", cloud.TagClaim, cloud.TagInstance)})
	for _, vm := range []string{"db-1", "ops-1"} {
		l.tag(l.vms[vm].nic, aws.Tags{cloud.TagSignature: "v1 AAAAAAA"})
	}
	before := l.holdings()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// TestOtherRightsMissing: where tags are not permitted at all, that is what is said, and it is not
// taken for a reason not to sign.
func TestOtherRightsMissing(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{policy: tagKeysOnly(t, cloud.TagClaim, cloud.TagInstance)})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	var r status.Report
	l.until("it is refused", func() bool {
		r, _ = l.realizer.Report(labAccount)
		return len(r.Blocked) > 0
	})
	for nic, why := range r.Blocked {
		if !strings.Contains(why, "CreateTags") || !strings.Contains(why, "UnauthorizedOperation") {
			t.Errorf("%v is refused because of %s", nic, why)
		}
	}
	if r.NotSigned {
		t.Error("it is said that signatures are not permitted")
	}
}

// TestNoKeyNoChange: without the key nothing is changed, what is enforced stays so, and it is said
// what is missing.
func TestNoKeyNoChange(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	l.halt()
	calls, enforced := l.mutations(), l.actual()
	whole := l.cluster
	l.cluster = interceptor.NewClient(whole.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("etcdserver: request timed out")
		},
	})
	l.start()
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.until("it is said", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "read the key of the records of former groups")
	})
	if n := l.mutations(); n != calls || compare(l.actual(), enforced) != "" {
		t.Errorf("%d calls that change something", n-calls)
	}
}

// TestNewAccountIsStrict: of an account without any record it is known that all are signed before
// the first one is written.
func TestNewAccountIsStrict(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	noted := false
	remove := l.server.World().OnMutation(func(aws.Mutation) {
		var s corev1.Secret
		err := l.cluster.Get(context.Background(), client.ObjectKey{Namespace: "kube-system", Name: recordkey.SecretName}, &s)
		noted = noted || err == nil && strings.Contains(string(s.Data["signed"]), labAccount)
		if !noted {
			t.Error("something is written before it is noted")
		}
	})
	defer remove()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	if !noted {
		t.Error("not noted")
	}
}

// TestForgedWhileNothingIsAsPlanned: a proven record is remembered as soon as it is seen, also
// while the cloud refuses to do what is planned for others.
func TestForgedWhileNothingIsAsPlanned(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	before := l.tagsOf("web-1")
	var refused atomic.Int64
	fault := l.server.Faults().Add(ec2.Fault{Action: "*", Code: "UnauthorizedOperation", Message: "no right", Times: -1, Match: func(c ec2.Call) bool {
		if !mutating(c) || strings.Contains(c.Action, "Tags") {
			return false
		}
		refused.Add(1)
		return true
	}})
	p := clusterPolicy("ops-in", 1, 20)
	p.AppliedTo = applied("ops")
	p.Ingress = []policy.Rule{{Action: policy.Drop, Peers: from("web"), Ports: ports(22)}}
	l.engine.PutPolicy(p)
	l.publish()
	l.until("it is refused", func() bool { return refused.Load() > 0 })
	l.tag(l.vms["web-1"].nic, aws.Tags{cloud.TagFormer: l.groupNamed("ops")})
	l.accounts.observe(t.Context())
	tried := refused.Load()
	l.until("it is tried again", func() bool { return refused.Load() > tried+2 })
	l.server.Faults().Remove(fault)
	l.until("the record is put right", func() bool { return gocmp.Equal(l.tagsOf("web-1"), before) })
	l.settle()
	if r := l.records(); len(r.Unproven) > 0 {
		t.Errorf("%+v", r)
	}
	if d := compare(l.actual(), l.wanted()); d != "" {
		t.Error(d)
	}
}

// TestKeyOfRecordsChanges: another key is taken up without a restart and with one; nothing but
// signatures changes. Then the former one is not needed, and what it signs is not believed.
func TestKeyOfRecordsChanges(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(map[bool]string{false: "at work", true: "between two processes"}[restarts], func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			before := l.holdings()
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.settle()
			signature, held := l.tagsOf("web-1")[cloud.TagSignature], l.held("web-1")
			if restarts {
				l.halt()
			}
			place := recordkey.Place()
			former := ""
			change := func(next func(keyring.Ring) (keyring.Ring, error)) {
				if err := place.Change(t.Context(), l.cluster, "kube-system", next); err != nil {
					t.Fatal(err)
				}
			}
			change(func(r keyring.Ring) (keyring.Ring, error) {
				former = r[0].ID
				next, err := place.Make(rand.Reader, l.options.Clock.Now())
				if err != nil {
					return nil, err
				}
				return r.Rotated(next)
			})
			if restarts {
				l.start()
			} else {
				l.options.Clock.(warp).Step(2 * time.Minute)
				l.realizer.Reconsider()
			}
			renewed := func() bool {
				s := l.keySecret()
				r, err := place.Of(s)
				if err != nil {
					t.Fatal(err)
				}
				return recordkey.Current(s.Data, r)[labAccount]
			}
			l.until("all is signed anew", func() bool {
				return l.tagsOf("web-1")[cloud.TagSignature] != signature && l.records().Outdated == 0 && renewed()
			})
			if !slices.Equal(l.held("web-1"), held) {
				t.Errorf("%v, and held %v", l.held("web-1"), held)
			}
			if d := compare(l.actual(), l.wanted()); d != "" {
				t.Error(d)
			}
			l.halt()
			change(func(r keyring.Ring) (keyring.Ring, error) { return r.Without(former) })
			l.tag(l.vms["web-2"].nic, aws.Tags{cloud.TagSignature: signature})
			l.start()
			l.until("it is said", func() bool { return len(l.records().Unproven) == 1 })
			l.engine.DeletePolicy(webIn().UID)
			l.publish()
			l.until("the other is given back", func() bool { return slices.Equal(l.held("web-1"), before.NICs[l.vms["web-1"].nic]) })
		})
	}
}
