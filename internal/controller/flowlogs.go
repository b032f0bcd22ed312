package controller

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows/agentless"
	"github.com/nephele-io/nephele/internal/flows/collect"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/policy"
)

const (
	// flowLogsEvery is how often it is looked for new files. Clouds write some every five minutes.
	flowLogsEvery = 3 * time.Minute
	// flowLogsPatience bounds the reading of one place in one round.
	flowLogsPatience = 2 * time.Minute
)

// errNotYet: nothing is known of the account yet, as after a start.
var errNotYet = errors.New("the account is not read yet")

// flowLogs reads the flow logs of cloud accounts out of their buckets, judges them, and puts them
// into the store of flows. It is a manager.Runnable and a prometheus.Collector.
type flowLogs struct {
	accounts client.Client
	traffic  *traffic
	// look returns what traffic is judged by, with the network ACLs of an account.
	look     func(ctx context.Context, account string) (*explain.Computation, []cloud.NetworkACL, error)
	provider func(account string) (cloud.Provider, bool)
	events   events.EventRecorder
	clock    clock.WithTicker
	log      logr.Logger
	// dir keeps what was read; empty if nothing is kept.
	dir string

	files, records, failing *prometheus.Desc
	mu                      sync.Mutex
	places                  map[flowLogPlace]*collected
}

// flowLogPlace is a place of an account.
type flowLogPlace struct {
	account, bucket, region, prefix, owner, regions string
	azure                                           bool
}

// collected is what is known of a place.
type collected struct {
	*collect.Collector
	counts collect.Counts
	err    error
	// picture is what stands for all that rows are judged by, and since when it is so.
	picture uint64
	since   time.Time
	// judged is what rows were judged by last, addresses are those of interfaces.
	judged    *agentless.Picture
	addresses map[string][]netip.Addr
	own       map[string]bool
}

func newFlowLogs(accounts client.Client, r *reviews, e events.EventRecorder, clk clock.WithTicker, dir string, log logr.Logger) *flowLogs {
	return &flowLogs{
		accounts: accounts, traffic: r.traffic, look: r.picture, provider: r.provider, events: e, clock: clk, dir: dir, log: log, places: map[flowLogPlace]*collected{},
		files:   prometheus.NewDesc("nephele_flow_logs_files_total", "Files of flow logs, by what became of them.", []string{"account", "result"}, nil),
		records: prometheus.NewDesc("nephele_flow_logs_records_total", "Records of flow logs, by what became of them.", []string{"account", "result"}, nil),
		failing: prometheus.NewDesc("nephele_flow_logs_failing", "1 while the flow logs of an account cannot be read.", []string{"account"}, nil),
	}
}

// Start reads until ctx ends.
func (f *flowLogs) Start(ctx context.Context) error {
	tick := f.clock.NewTicker(flowLogsEvery)
	defer tick.Stop()
	for {
		if fault := recovered.Do(func() { f.round(ctx) }); fault != nil {
			f.log.Error(fault, "Reading flow logs failed", "stack", recovered.StackOf(fault))
		}
		select {
		case <-ctx.Done():
			f.end()
			return nil
		case <-tick.C():
		}
	}
}

// end puts what was read and waits for the rest of its minute.
func (f *flowLogs) end() {
	for p, c := range f.places {
		if c.judged == nil {
			continue
		}
		if err := f.traffic.put(c.judged.Enforcer, c.judged.Entries(c.Rest())); err != nil {
			f.log.Error(err, "What flow logs told last is not kept", "account", p.account)
		}
	}
}

// round reads what is new of all accounts.
func (f *flowLogs) round(ctx context.Context) {
	var all cloudv1.CloudProviderAccountList
	if err := f.accounts.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		f.log.Error(err, "Accounts cannot be listed for their flow logs, trying again")
		return
	}
	wanted := map[flowLogPlace]bool{}
	for i := range all.Items {
		a := &all.Items[i]
		var looked []lookedAt
		for _, p := range placesOf(a) {
			wanted[p] = true
			err := f.read(ctx, p)
			if ctx.Err() != nil {
				return
			}
			f.tell(a, p, err)
			looked = append(looked, f.lookedAt(p, err))
		}
		if err := f.show(ctx, a, looked); err != nil {
			f.log.Error(err, "How flow logs are read is not shown, trying again", "account", a.Namespace+"/"+a.Name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.places {
		if !wanted[p] {
			delete(f.places, p)
		}
	}
}

// placesOf are the places that an account names, once it is known which it is.
func placesOf(a *cloudv1.CloudProviderAccount) (out []flowLogPlace) {
	key, owner := cloud.AccountKey(a.Namespace, a.Name), a.Status.CloudAccountID
	switch {
	case owner == "" || !a.DeletionTimestamp.IsZero():
	case a.Spec.AWSConfig != nil:
		for _, at := range a.Spec.AWSConfig.FlowLogs {
			out = append(out, flowLogPlace{account: key, bucket: at.Bucket, region: at.Region, prefix: at.Prefix, owner: owner, regions: strings.Join(a.Spec.AWSConfig.Region, " ")})
		}
	case a.Spec.AzureConfig != nil:
		for _, at := range a.Spec.AzureConfig.FlowLogs {
			out = append(out, flowLogPlace{account: key, bucket: at.Container, owner: owner, azure: true})
		}
	}
	return out
}

// tell notes how reading went, and records an event when that changes.
func (f *flowLogs) tell(a *cloudv1.CloudProviderAccount, p flowLogPlace, err error) {
	f.mu.Lock()
	c := f.places[p]
	before := error(nil)
	if c != nil {
		before, c.err = c.err, err
	}
	f.mu.Unlock()
	switch {
	case c == nil, errors.Is(err, errNotYet), errors.Is(before, errNotYet) && err == nil:
	case err != nil && (before == nil || errors.Is(before, errNotYet)):
		f.log.Error(err, "Flow logs cannot be read, trying again", "account", p.account, "bucket", p.bucket)
		f.events.Eventf(a, nil, corev1.EventTypeWarning, "FlowLogsNotRead", "ReadFlowLogs", "%s", cutNote(fmt.Sprintf("bucket %s: %v", p.bucket, err)))
	case err == nil && before != nil:
		f.events.Eventf(a, nil, corev1.EventTypeNormal, "FlowLogsRead", "ReadFlowLogs", "bucket %s is read again", p.bucket)
	}
}

// cutNote cuts a text to what the API takes for an event.
func cutNote(text string) string {
	const most = 1000
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// read reads what is new in one place.
func (f *flowLogs) read(ctx context.Context, p flowLogPlace) error {
	now := f.clock.Now()
	c := f.place(p, now)
	provider, ok := f.provider(p.account)
	if !ok {
		return errNotYet
	}
	storage, ok := provider.(cloud.Storage)
	if !ok {
		return errors.New("nothing here reads the storage of this cloud")
	}
	computation, acls, err := f.look(ctx, p.account)
	if err != nil {
		return err
	}
	if picture := pictureOf(computation, acls); picture != c.picture {
		c.picture, c.since = picture, now
		c.addresses, c.own = addressesOf(computation, p.account)
	}
	attempt, cancel := context.WithTimeout(ctx, flowLogsPatience)
	defer cancel()
	rows, err := c.Round(attempt, storage, now)
	judged := &agentless.Picture{
		Enforcer: "cloud/" + p.account, Own: c.own, Judge: judge.New(computation), Owners: f.traffic.owners, Since: c.since, UID: uidsOf(computation.Objects),
	}
	c.judged = judged
	err = errors.Join(err, f.traffic.put(judged.Enforcer, judged.Entries(rows)), f.keep(p, c))
	counts := c.Counts()
	f.mu.Lock()
	defer f.mu.Unlock()
	c.counts = counts
	return err
}

// place is what is known of one, from a former process if there is nothing yet.
func (f *flowLogs) place(p flowLogPlace, now time.Time) *collected {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.places[p]; c != nil {
		return c
	}
	var state []byte
	if f.dir != "" {
		var err error
		path := f.stateOf(p)
		if _, err = os.Stat(path); errors.Is(err, os.ErrNotExist) {
			err = os.Rename(f.formerStateOf(p), path)
		}
		if err == nil {
			state, err = os.ReadFile(path)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			f.log.Error(err, "Which flow logs were read is not known", "account", p.account)
		}
	}
	c := &collected{}
	c.Collector = collect.New(collect.Place{
		Bucket: cloud.Bucket{Name: p.bucket, Region: p.region}, Prefix: p.prefix, Owner: p.owner, Regions: strings.Fields(p.regions), Azure: p.azure,
	}, state, func(id string) []netip.Addr { return c.addresses[id] }, now)
	f.places[p] = c
	return c
}

// stateOf is the file that keeps what was read of a place.
func (f *flowLogs) stateOf(p flowLogPlace) string {
	sum := sha256.Sum256(p.identity())
	return filepath.Join(f.dir, fmt.Sprintf("flow-logs-%x.json", sum[:16]))
}

// formerStateOf is that file as former releases named it, by a hash that is easily met twice.
func (f *flowLogs) formerStateOf(p flowLogPlace) string {
	h := fnv.New64a()
	_, _ = h.Write(p.identity())
	return filepath.Join(f.dir, fmt.Sprintf("flow-logs-%016x.json", h.Sum64()))
}

// identity tells a place apart from others.
func (p *flowLogPlace) identity() []byte {
	return fmt.Appendf(nil, "%q", []string{p.account, p.bucket, p.region, p.prefix, p.owner})
}

// keep writes what was read, whole or not at all.
func (f *flowLogs) keep(p flowLogPlace, c *collected) error {
	if f.dir == "" {
		return nil
	}
	raw, err := c.State()
	if err != nil {
		return err
	}
	path := f.stateOf(p)
	if err := os.WriteFile(path+".part", raw, 0o600); err != nil {
		return fmt.Errorf("keep which flow logs were read: %w", err)
	}
	if err := os.Rename(path+".part", path); err != nil {
		return fmt.Errorf("keep which flow logs were read: %w", err)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (f *flowLogs) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.files, f.records, f.failing} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (f *flowLogs) Collect(c chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files, records, failing := map[string]map[string]int64{}, map[string]map[string]int64{}, map[string]float64{}
	add := func(sums map[string]map[string]int64, account, result string, n int64) {
		if sums[account] == nil {
			sums[account] = map[string]int64{}
		}
		sums[account][result] += n
	}
	for p, x := range f.places {
		n := x.counts
		add(files, p.account, "read", n.Files-n.Broken)
		add(files, p.account, "broken", n.Broken)
		for result, n := range map[string]int64{
			"read": n.Records, "bad": n.Bad, "foreign": n.Foreign, "odd": n.Odd, "lost_windows": n.Lost, "over": n.Over, "placeless": n.Placeless, "twice": n.Twice,
		} {
			add(records, p.account, result, n)
		}
		if failing[p.account] += 0; x.err != nil {
			failing[p.account] = 1
		}
	}
	for _, sums := range []struct {
		desc *prometheus.Desc
		of   map[string]map[string]int64
	}{{f.files, files}, {f.records, records}} {
		for account, results := range sums.of {
			for result, n := range results {
				c <- prometheus.MustNewConstMetric(sums.desc, prometheus.CounterValue, float64(n), account, result)
			}
		}
	}
	for account, n := range failing {
		c <- prometheus.MustNewConstMetric(f.failing, prometheus.GaugeValue, n, account)
	}
}

// picture is what traffic is judged by now, with the network ACLs of an account.
func (r *reviews) picture(ctx context.Context, account string) (*explain.Computation, []cloud.NetworkACL, error) {
	s, err := r.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	acls, _ := r.networkACLs(ctx, s, []string{account})
	return s.computed.WithACLs(acls), acls, nil
}

// pictureOf is another number when policies, machines or groups are others than before. Pods count
// where they are somebody's other end: who they were then is looked at for each connection.
func pictureOf(c *explain.Computation, acls []cloud.NetworkACL) (sum uint64) {
	add := func(format string, args ...any) {
		// The sum is the same in any order. Parts of a hash with a structure, as FNV, could cancel.
		h := sha256.Sum256(fmt.Appendf(nil, format, args...))
		sum += binary.BigEndian.Uint64(h[:])
	}
	for _, p := range policiesOf(c.Objects) {
		add("policy %s %d %v", p.GetUID(), p.GetGeneration(), p.GetAnnotations())
	}
	for _, g := range c.Objects.Groups {
		add("group %s %d", g.UID, g.Generation)
	}
	for _, g := range c.Objects.ClusterGroups {
		add("group %s %d", g.UID, g.Generation)
	}
	for _, t := range c.Objects.Tiers {
		add("tier %s %d", t.UID, t.Generation)
	}
	for _, s := range c.Objects.Selectors {
		add("selector %s %d %v", s.UID, s.Generation, s.Annotations)
	}
	for _, a := range c.Objects.Accounts {
		add("account %s %d %v", a.UID, a.Generation, a.Annotations)
	}
	for ref, e := range c.Ends {
		if ref.Kind == policy.KindExternalEntity {
			add("entity %v %v %v", ref, e.Labels, e.Addresses)
		}
	}
	for _, a := range c.Objects.Observed {
		for _, s := range a.Snapshots {
			for i := range s.Interfaces {
				add("interface %s %v %v %v", s.Interfaces[i].ID, s.Interfaces[i].GroupIDs, s.Interfaces[i].PrivateIPs, s.Interfaces[i].SubnetID)
			}
			for i := range s.Groups {
				add("rules %s %v", s.Groups[i].ID, s.Groups[i].Rules)
			}
		}
	}
	for i := range acls {
		add("acl %v", acls[i])
	}
	return sum
}

// policiesOf are all policies.
func policiesOf(o *explain.Objects) (out []client.Object) {
	for _, p := range o.Policies {
		out = append(out, p)
	}
	for _, p := range o.ClusterPolicies {
		out = append(out, p)
	}
	for _, p := range o.K8sPolicies {
		out = append(out, p)
	}
	for _, p := range o.AdminPolicies {
		out = append(out, p)
	}
	for _, p := range o.BaselinePolicies {
		out = append(out, p)
	}
	for _, p := range o.UpstreamPolicies {
		out = append(out, p)
	}
	return out
}

// uidsOf finds the UIDs of policies by what they are called.
func uidsOf(o *explain.Objects) func(analysis.Policy) string {
	uids := map[analysis.Policy]string{}
	add := func(kind policy.PolicyKind, p client.Object) {
		uids[analysis.Policy{Type: string(kind), Namespace: p.GetNamespace(), Name: p.GetName()}] = string(p.GetUID())
	}
	for _, p := range o.Policies {
		add(policy.AntreaNetworkPolicy, p)
	}
	for _, p := range o.ClusterPolicies {
		add(policy.AntreaClusterNetworkPolicy, p)
	}
	for _, p := range o.K8sPolicies {
		add(policy.KubernetesNetworkPolicy, p)
	}
	for _, p := range o.AdminPolicies {
		add(policy.AdminNetworkPolicy, p)
	}
	for _, p := range o.BaselinePolicies {
		add(policy.BaselineAdminNetworkPolicy, p)
	}
	for _, p := range o.UpstreamPolicies {
		add(policy.ClusterNetworkPolicy, p)
	}
	return func(p analysis.Policy) string { return uids[p] }
}

// addressesOf are those of the interfaces of an account, and these by ID and MAC address.
func addressesOf(c *explain.Computation, account string) (addresses map[string][]netip.Addr, own map[string]bool) {
	addresses, own = map[string][]netip.Addr{}, map[string]bool{}
	for _, a := range c.Objects.Observed {
		if a.Key != account {
			continue
		}
		for _, s := range a.Snapshots {
			for i := range s.Interfaces {
				n := &s.Interfaces[i]
				addresses[n.ID], own[n.ID] = n.PrivateIPs, true
				if n.MAC != "" {
					own[n.MAC] = true
				}
			}
		}
	}
	return addresses, own
}
