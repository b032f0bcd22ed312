// Package flowlogs reads the flow logs of cloud accounts into the store of traffic.
//
// It owns the Reader: which files of which bucket were read, kept on disk over a restart, what
// their rows are judged by, and the condition FlowLogsRead of accounts. A Reader is a
// manager.Runnable and a prometheus.Collector; only its metrics may be asked while it runs.
package flowlogs

import (
	"context"
	"crypto/sha256"
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

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/controller/traffic"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows/agentless"
	"github.com/nephele-io/nephele/internal/flows/collect"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// interval is how often it is looked for new files. Clouds write some every five minutes.
	interval = 3 * time.Minute
	// timeout bounds the reading of one place in one round.
	timeout = 2 * time.Minute
)

// errNotYet: nothing is known of the account yet, as after a start.
var errNotYet = errors.New("the account is not read yet")

// Reader reads the flow logs of cloud accounts out of their buckets, judges them, and puts them
// into the store of flows. It is a manager.Runnable and a prometheus.Collector.
type Reader struct {
	accounts client.Client
	traffic  *traffic.Store
	clouds   Clouds
	events   events.EventRecorder
	clock    clock.WithTicker
	log      logr.Logger
	// dir keeps what was read; empty if nothing is kept.
	dir string

	files, records, failing *prometheus.Desc
	mu                      sync.Mutex
	places                  map[place]*collected
}

// place is a place of an account.
type place struct {
	account, bucket, region, prefix, owner, regions string
	azure                                           bool
}

// collected is what is known of a place.
type collected struct {
	*collect.Collector
	counts collect.Counts
	err    error
	// inputs is the sum of all that rows are judged by, and since when it is so.
	inputs uint64
	since  time.Time
	// judged is what rows were judged by last, addresses are the addresses of interfaces.
	judged    *agentless.Picture
	addresses map[string][]netip.Addr
	own       map[string]bool
}

// Clouds is what a Reader asks about accounts.
type Clouds interface {
	// Judging returns what traffic is judged by now, with the network ACLs of an account,
	// "namespace/name".
	Judging(ctx context.Context, account string) (*explain.Computation, []cloud.NetworkACL, error)
	// Provider returns the provider of an account; false while the account is not read.
	Provider(account string) (cloud.Provider, bool)
}

// New returns a reader into a store. Dir keeps what was read; it is empty if nothing is kept.
func New(accounts client.Client, clouds Clouds, store *traffic.Store, e events.EventRecorder, clk clock.WithTicker, dir string, log logr.Logger) *Reader {
	return &Reader{
		accounts: accounts, traffic: store, clouds: clouds, events: e, clock: clk, dir: dir, log: log, places: map[place]*collected{},
		files:   prometheus.NewDesc("nephele_flow_logs_files_total", "Files of flow logs, by what became of them.", []string{"account", "result"}, nil),
		records: prometheus.NewDesc("nephele_flow_logs_records_total", "Records of flow logs, by what became of them.", []string{"account", "result"}, nil),
		failing: prometheus.NewDesc("nephele_flow_logs_failing", "1 while the flow logs of an account cannot be read.", []string{"account"}, nil),
	}
}

// Start reads until ctx ends.
func (f *Reader) Start(ctx context.Context) error {
	tick := f.clock.NewTicker(interval)
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
func (f *Reader) end() {
	for p, c := range f.places {
		if c.judged == nil {
			continue
		}
		if err := f.traffic.Put(c.judged.Enforcer, c.judged.Entries(c.Rest())); err != nil {
			f.log.Error(err, "What flow logs told last is not kept", "account", p.account)
		}
	}
}

// round reads what is new of all accounts.
func (f *Reader) round(ctx context.Context) {
	var all cloudv1.CloudProviderAccountList
	if err := f.accounts.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		f.log.Error(err, "Accounts cannot be listed for their flow logs, trying again")
		return
	}
	wanted := map[place]bool{}
	for i := range all.Items {
		a := &all.Items[i]
		var looked []result
		for _, p := range placesOf(a) {
			wanted[p] = true
			err := f.read(ctx, p)
			if ctx.Err() != nil {
				return
			}
			f.report(a, p, err)
			looked = append(looked, f.result(p, err))
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
func placesOf(a *cloudv1.CloudProviderAccount) (out []place) {
	key, owner := cloud.AccountKey(a.Namespace, a.Name), a.Status.CloudAccountID
	switch {
	case owner == "" || !a.DeletionTimestamp.IsZero():
	case a.Spec.AWSConfig != nil:
		for _, at := range a.Spec.AWSConfig.FlowLogs {
			out = append(out, place{account: key, bucket: at.Bucket, region: at.Region, prefix: at.Prefix, owner: owner, regions: strings.Join(a.Spec.AWSConfig.Region, " ")})
		}
	case a.Spec.AzureConfig != nil:
		for _, at := range a.Spec.AzureConfig.FlowLogs {
			out = append(out, place{account: key, bucket: at.Container, owner: owner, azure: true})
		}
	}
	return out
}

// report notes how reading went, and records an event when that changes.
func (f *Reader) report(a *cloudv1.CloudProviderAccount, p place, err error) {
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
	const maxBytes = 1000
	if len(text) > maxBytes {
		return strings.ToValidUTF8(text[:maxBytes], "") + "..."
	}
	return text
}

// read reads what is new in one place.
func (f *Reader) read(ctx context.Context, p place) error {
	now := f.clock.Now()
	c := f.known(p, now)
	provider, ok := f.clouds.Provider(p.account)
	if !ok {
		return errNotYet
	}
	storage, ok := provider.(cloud.Storage)
	if !ok {
		return errors.New("nothing here reads the storage of this cloud")
	}
	computation, acls, err := f.clouds.Judging(ctx, p.account)
	if err != nil {
		return err
	}
	if inputs := inputsSum(computation, acls); inputs != c.inputs {
		c.inputs, c.since = inputs, now
		c.addresses, c.own = addressesOf(computation, p.account)
	}
	attempt, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := c.Round(attempt, storage, now)
	judged := &agentless.Picture{
		Enforcer: "cloud/" + p.account, Own: c.own, Judge: judge.New(computation), Owners: f.traffic.Owners(), Since: c.since, UID: uidsOf(computation.Objects),
	}
	c.judged = judged
	err = errors.Join(err, f.traffic.Put(judged.Enforcer, judged.Entries(rows)), f.keep(p, c))
	counts := c.Counts()
	f.mu.Lock()
	defer f.mu.Unlock()
	c.counts = counts
	return err
}

// known is what is known of one, from a former process if there is nothing yet.
func (f *Reader) known(p place, now time.Time) *collected {
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
func (f *Reader) stateOf(p place) string {
	sum := sha256.Sum256(p.identity())
	return filepath.Join(f.dir, fmt.Sprintf("flow-logs-%x.json", sum[:16]))
}

// formerStateOf is that file as former releases named it, by a hash that is easily met twice.
func (f *Reader) formerStateOf(p place) string {
	h := fnv.New64a()
	_, _ = h.Write(p.identity())
	return filepath.Join(f.dir, fmt.Sprintf("flow-logs-%016x.json", h.Sum64()))
}

// identity tells a place apart from others.
func (p *place) identity() []byte {
	return fmt.Appendf(nil, "%q", []string{p.account, p.bucket, p.region, p.prefix, p.owner})
}

// keep writes what was read, whole or not at all.
func (f *Reader) keep(p place, c *collected) error {
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
func (f *Reader) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.files, f.records, f.failing} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (f *Reader) Collect(c chan<- prometheus.Metric) {
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
