package aws_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/platform/egress"
	"github.com/nephele-io/nephele/internal/sim"
)

// hostile is an endpoint that answers every question about a region with the same thing, and is
// well-behaved otherwise.
func hostile(t *testing.T, action string, answer http.HandlerFunc) *recorder {
	t.Helper()
	return record(t, func(w http.ResponseWriter, r *http.Request) {
		switch asked := r.FormValue("Action"); asked {
		case action:
			answer(w, r)
		case "GetCallerIdentity":
			_, _ = io.WriteString(w, `<R><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/x</Arn><Account>123456789012</Account></GetCallerIdentityResult></R>`)
		default:
			_, _ = fmt.Fprintf(w, "<%sResponse></%[1]sResponse>", asked)
		}
	})
}

// openHostile is a provider with small bounds that reads such an endpoint.
func openHostile(t *testing.T, endpoint string, b cloud.Bounds) *aws.Provider {
	t.Helper()
	p, err := aws.New(aws.Config{
		Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: region, Endpoint: endpoint, MaxAttempts: 1, Bounds: b,
		AttemptTimeout: 5 * time.Minute, // the machine may be slow
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// endless writes head and then part again and again, size bytes in all or until nobody reads any
// more.
func endless(head, part string, size int) http.HandlerFunc {
	block := []byte(strings.Repeat(part, 1+(64<<10)/len(part)))
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		for sent := 0; sent < size && err == nil; sent += len(block) {
			_, err = w.Write(block)
		}
	}
}

// zipped packs what another answer is.
func zipped(of http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		of(zipWriter{w, z}, r)
		_ = z.Close()
	}
}

type zipWriter struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (z zipWriter) Write(p []byte) (int, error) { return z.z.Write(p) }

// peak returns how large the heap was before do ran, and by how much it was larger at its height.
func peak(do func()) (was, grown uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as shipped
	runtime.GC()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var highest uint64
		var now runtime.MemStats
		for {
			runtime.ReadMemStats(&now)
			highest = max(highest, now.HeapAlloc)
			select {
			case <-stop:
				done <- highest
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	return before.HeapAlloc, max(<-done, before.HeapAlloc) - before.HeapAlloc
}

// TestAnswersWithoutEnd: whatever an endpoint answers, it fails at the bound, says so, and takes
// hardly more memory than the bound says. It is not parallel, for it measures memory.
func TestAnswersWithoutEnd(t *testing.T) {
	const bound, huge = 16 << 20, 600 << 20
	instances := "<DescribeInstancesResponse><reservationSet><item><instancesSet>"
	for name, c := range map[string]struct {
		action string
		answer http.HandlerFunc
	}{
		"one text":                 {"DescribeVpcs", endless("<DescribeVpcsResponse><vpcSet><item><vpcId>", "x", huge)},
		"one name":                 {"DescribeVpcs", endless("<DescribeVpcsResponse><", "x", huge)},
		"one comment":              {"DescribeVpcs", endless("<DescribeVpcsResponse><!--", "x", huge)},
		"empty VMs":                {"DescribeInstances", endless(instances, "<item/>", huge)},
		"empty VMs in capitals":    {"DescribeInstances", endless(instances, "<x:ITEM></x:ITEM>", huge)},
		"empty reservations":       {"DescribeInstances", endless("<DescribeInstancesResponse><reservationSet>", "<item/>", huge)},
		"empty interfaces":         {"DescribeNetworkInterfaces", endless("<DescribeNetworkInterfacesResponse><networkInterfaceSet>", "<item/>", huge)},
		"empty interfaces of a VM": {"DescribeInstances", endless(instances+"<item><networkInterfaceSet>", "<item/>", huge)},
		"empty groups":             {"DescribeSecurityGroups", endless("<DescribeSecurityGroupsResponse><securityGroupInfo>", "<item/>", huge)},
		"empty rules":              {"DescribeSecurityGroups", endless("<DescribeSecurityGroupsResponse><securityGroupInfo><item><ipPermissions>", "<item/>", huge)},
		"tags": {"DescribeVpcs", endless("<DescribeVpcsResponse><vpcSet><item><vpcId>vpc-1</vpcId><tagSet>",
			"<item><key>k</key><value>"+strings.Repeat("v", 200)+"</value></item>", huge)},
		"empty tags":     {"DescribeVpcs", endless("<DescribeVpcsResponse><vpcSet><item><vpcId>vpc-1</vpcId><tagSet>", "<item/>", huge)},
		"nesting":        {"DescribeVpcs", endless("<DescribeVpcsResponse>", "<a>", huge)},
		"hidden nesting": {"DescribeVpcs", endless("<DescribeVpcsResponse>", "<a><![CDATA[</</</</]]>", huge)},
		"packed VMs":     {"DescribeInstances", zipped(endless(instances, "<item/>", huge))},
		"packed tags": {"DescribeVpcs", zipped(endless("<DescribeVpcsResponse><vpcSet><item><vpcId>vpc-1</vpcId><tagSet>",
			"<item><key>k</key><value>"+strings.Repeat("v", 200)+"</value></item>", huge))},
		"an error": {"DescribeVpcs", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless("<Response><Errors><Error><Code>", "x", huge)(w, r)
		}},
		"spaces behind the end": {"DescribeVpcs", endless("<DescribeVpcsResponse></DescribeVpcsResponse>", "\n", huge)},
	} {
		endpoint := hostile(t, c.action, c.answer)
		p := openHostile(t, endpoint.URL, cloud.Bounds{AnswerBytes: bound})
		if _, err := p.OwnerID(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		was, grown := peak(func() { _, err = p.Observe(t.Context(), cloud.Scope{Region: region}) })
		var over *cloud.BoundError
		if !errors.As(err, &over) && name != "spaces behind the end" {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %.1f bounds: %v", name, float64(grown)/bound, err)
		// The collector lets as much garbage be as there was before.
		if grown > 2*bound+was+4<<20 {
			t.Errorf("%s: the heap has grown by %d MB for a bound of %d MB", name, grown>>20, bound>>20)
		}
	}
}

// TestBoundsAreTold: what exceeds a bound is an error that names the bound and its flag, and the
// default bounds are far away from accounts as there are.
func TestBoundsAreTold(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{State: crowd(30)})
	whole, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bounds cloud.Bounds
		want   string
	}{
		{cloud.Bounds{}, ""},
		{cloud.Bounds{AnswerBytes: 5000}, "more than 5000 bytes, the bound that --max-answer-bytes sets"},
		{cloud.Bounds{Pages: 7}, "the listing has more than 7 pages, the bound that --max-pages sets"},
		{cloud.Bounds{Pages: 8}, ""}, // of 5; there are 40 groups
		{cloud.Bounds{Objects: 100}, "the account has more than 100 objects, the bound that --max-objects sets"},
		{cloud.Bounds{Objects: 101}, ""}, // a network, 30 VMs, 30 interfaces, 40 groups: not one more than a kilobyte
	} {
		for name, view := range map[string]cloud.Provider{
			"whole":    l.open(aws.Config{PageSize: 5, Bounds: c.bounds}),
			"narrowed": l.open(aws.Config{PageSize: 5, Bounds: c.bounds}).Narrow([]cloud.NetworkMatch{{Name: "vpc0"}}),
		} {
			for range 2 {
				s, err := view.Observe(t.Context(), l.scope())
				var over *cloud.BoundError
				switch {
				case c.want == "" && (err != nil || len(s.VMs) != 30):
					t.Errorf("%s, %+v: %v", name, c.bounds, err)
				case c.want != "" && (s != nil || !errors.As(err, &over) || cloud.ClassOf(err) != cloud.Terminal || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%s, %+v: %v; want %s", name, c.bounds, err, c.want)
				}
			}
		}
	}
	// What is read in parts counts as well, and for no more than it is.
	p := l.open(aws.Config{Bounds: cloud.Bounds{Objects: 101}})
	s, err := p.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if s, err = p.Refresh(t.Context(), s, []string{whole.VMs[0].ID, whole.Groups[0].ID}); err != nil {
			t.Fatal(err)
		}
	}
	l.must(cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{Name: "nephele-x", NetworkID: whole.Networks[0].ID, Tags: map[string]string{cloud.TagCluster: "c"}}})
	grown, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	fresh := grown.Groups[slices.IndexFunc(grown.Groups, func(g cloud.Group) bool { return g.Name == "nephele-x" })].ID
	if _, err := p.Refresh(t.Context(), s, []string{fresh}); err == nil || !strings.Contains(err.Error(), "--max-objects") {
		t.Errorf("a group more: %v", err)
	}
}

// TestBoundOfAllRegions: the regions of an account share the bound, whether they are read one after
// the other or beside one another.
func TestBoundOfAllRegions(t *testing.T) {
	t.Parallel()
	vpc := `<item><vpcId>vpc-%d</vpcId><cidrBlock>10.0.0.0/16</cidrBlock></item>`
	many := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<R><vpcSet>")
		for i := range 100 {
			_, _ = fmt.Fprintf(w, vpc, i)
		}
		_, _ = io.WriteString(w, "</vpcSet></R>")
	}
	endpoint := hostile(t, "DescribeVpcs", many)
	p := openHostile(t, endpoint.URL, cloud.Bounds{Objects: 450})
	read := func(region string) error {
		_, err := p.Observe(t.Context(), cloud.Scope{Region: region})
		return err
	}
	for i := range 8 {
		err := read(fmt.Sprint("region-", i))
		if over := (*cloud.BoundError)(nil); errors.As(err, &over) != (i >= 4) {
			t.Errorf("region %d of 100 objects each, of 450: %v", i, err)
		}
	}
	if err := read("region-0"); err != nil {
		t.Errorf("a region that was there: %v", err)
	}
	p = openHostile(t, endpoint.URL, cloud.Bounds{Objects: 450})
	var wg sync.WaitGroup
	var good atomic.Int32
	for i := range 20 {
		wg.Go(func() {
			if read(fmt.Sprint("region-", i)) == nil {
				good.Add(1)
			}
		})
	}
	wg.Wait()
	if good.Load() > 4 {
		t.Errorf("%d regions of 100 objects each, of 450", good.Load())
	}
}

// TestManyRegionsWithoutEnd: an account may have a hundred regions, which are read beside one
// another; all of them together take hardly more than a few.
func TestManyRegionsWithoutEnd(t *testing.T) {
	const bound = 8 << 20
	endpoint := hostile(t, "DescribeInstances", endless("<DescribeInstancesResponse><reservationSet><item><instancesSet>", "<item/>", 100<<20))
	p := openHostile(t, endpoint.URL, cloud.Bounds{AnswerBytes: bound})
	if _, err := p.OwnerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	var failed atomic.Int32
	was, grown := peak(func() {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				_, err := p.Observe(t.Context(), cloud.Scope{Region: fmt.Sprint("region-", i)})
				if over := (*cloud.BoundError)(nil); errors.As(err, &over) {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
	})
	t.Logf("%.1f bounds", float64(grown)/bound)
	if failed.Load() != 50 || grown > 2*2*bound+was+50<<20 {
		t.Errorf("%d of 50 regions failed at the bound; the heap has grown by %d MB for two answers of %d MB at a time", failed.Load(), grown>>20, bound>>20)
	}
}

// TestEndlessPages: a listing that always goes on is given up.
func TestEndlessPages(t *testing.T) {
	t.Parallel()
	pages := 0
	endpoint := hostile(t, "DescribeVpcs", func(w http.ResponseWriter, _ *http.Request) {
		pages++
		_, _ = fmt.Fprintf(w, "<R><vpcSet/><nextToken>%d</nextToken></R>", pages)
	})
	_, err := openHostile(t, endpoint.URL, cloud.Bounds{Pages: 50}).Observe(t.Context(), cloud.Scope{Region: region})
	if over := (*cloud.BoundError)(nil); !errors.As(err, &over) || pages != 50 {
		t.Errorf("%d pages: %v", pages, err)
	}
}

// TestSlowAnswersEnd: an answer that comes drop by drop, for ever, ends with the attempt.
func TestSlowAnswersEnd(t *testing.T) {
	t.Parallel()
	endpoint := hostile(t, "DescribeVpcs", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "<R>")
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	})
	p, err := aws.New(aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: region, Endpoint: endpoint.URL,
		MaxAttempts: 2, MaxBackoff: time.Millisecond, AttemptTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, err = p.Observe(t.Context(), cloud.Scope{Region: region})
	if took := time.Since(begin); cloud.ClassOf(err) != cloud.Unavailable || took > 10*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
}

// TestEndpointsMustBeAllowed: what the operator has not allowed is not called, whichever account's
// keys are used.
func TestEndpointsMustBeAllowed(t *testing.T) {
	t.Parallel()
	endpoint := hostile(t, "", nil)
	for rules, allowed := range map[string]bool{"": false, "loopback": true, "127.0.0.1": true, "127.0.0.0/8": true, "10.0.0.0/8": false, "localhost": false, "0.0.0.0/0": true} {
		parsed, err := egress.Parse(strings.Fields(rules))
		if err != nil {
			t.Fatal(err)
		}
		cfg := aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: region, Allowed: &parsed, MaxAttempts: 1}
		before := len(endpoint.received())
		open := func(endpoint, queue string) error {
			cfg.Endpoint, cfg.Queues = endpoint, nil
			if queue != "" {
				cfg.Queues = []aws.Queue{{URL: queue}}
			}
			p, err := aws.New(cfg)
			if err == nil && endpoint != "" {
				_, err = p.Observe(t.Context(), cloud.Scope{Region: region})
			}
			return err
		}
		const ours = "https://sqs.us-west-2.amazonaws.com/123456789012/q"
		for what, err := range map[string]error{"endpoint": open(endpoint.URL, ours), "queue": open("", endpoint.URL+"/123456789012/q")} {
			if allowed && err != nil {
				t.Errorf("%q: %s: %v", rules, what, err)
			} else if !allowed {
				wantNotGranted(t, fmt.Sprintf("%q: %s", rules, what), err, "--allowed-endpoints")
			}
		}
		if called := len(endpoint.received()) > before; called != allowed {
			t.Errorf("%q: called: %t", rules, called)
		}
		if err := open("", ours); err != nil {
			t.Errorf("a queue of AWS: %v", err)
		}
		wantNotGranted(t, "the metadata service", open("http://169.254.169.254", ""), "--allowed-endpoints")
		for _, queue := range []string{"https://sqs.us-west-2.amazonaws.com.evil.example/1/q", "http://evil.example/sqs.us-west-2.amazonaws.com", "https://sqs.s3-us-west-2.amazonaws.com/1/q",
			"https://bucket.s3.us-west-2.amazonaws.com/q", "https://evil.us-west-2.elb.amazonaws.com/1/q"} {
			if rules == "" || rules == "loopback" {
				wantNotGranted(t, queue, open("", queue), "--allowed-endpoints")
			}
		}
	}
}

// refusing is a client whose dialer refuses the address.
type refusing struct{}

func (refusing) Do(req *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("dial: %w", &egress.RefusedError{Host: req.URL.Host, Address: "169.254.169.254"})
}

// TestRefusedWhenConnecting: an address that is refused at the moment of connecting is told like
// one that was refused before, and is not tried again.
func TestRefusedWhenConnecting(t *testing.T) {
	t.Parallel()
	rules, err := egress.Parse([]string{"0.0.0.0/0"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := aws.New(aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: region, Allowed: &rules,
		Endpoint: "http://name.of.a.tenant", Client: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, err = p.Observe(t.Context(), cloud.Scope{Region: region})
	wantNotGranted(t, "rebinding", err, "leads to 169.254.169.254, which is not an allowed endpoint; the controller allows 0.0.0.0/0 by --allowed-endpoints")
	if cloud.ClassOf(err) != cloud.Auth || time.Since(begin) > 200*time.Millisecond {
		t.Errorf("%s after %s", cloud.ClassOf(err), time.Since(begin))
	}
}

// anywhere notes where requests go.
type anywhere struct {
	mu    sync.Mutex
	hosts []string
}

func (a *anywhere) Do(req *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts = append(a.hosts, req.URL.Host)
	return nil, errors.New("nowhere")
}

// TestRegionsLeadToAWS: a region is the tenant's to choose, and part of a host's name. Whatever it
// is, requests go to services of AWS.
func TestRegionsLeadToAWS(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{"us-west-2": true, "us-gov-west-1": true, "cn-north-1": true, "eusc-de-east-1": true, "us-isob-east-1": true,
		"s3-us-west-2": false, "evil": false, "x.evil.example": false, "evil.example/": false, "evil.example#": false, "us-west-2@evil.example:1/": false} {
		client := &anywhere{}
		p, err := aws.New(aws.Config{Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: name, Client: client, MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Observe(t.Context(), cloud.Scope{Region: name})
		if sent := len(client.hosts) > 0; err == nil || sent != good {
			t.Errorf("%s: %v; sent to %q", name, err, client.hosts)
		}
	}
}

// TestEndlessPagesWhileWriting: an op that reads rules by page ends as a reading does.
func TestEndlessPagesWhileWriting(t *testing.T) {
	t.Parallel()
	for want, bounds := range map[string]cloud.Bounds{"--max-pages": {Pages: 20}, "--max-objects": {Objects: 50}} {
		pages := 0
		endpoint := hostile(t, "DescribeSecurityGroupRules", func(w http.ResponseWriter, _ *http.Request) {
			pages++
			_, _ = io.WriteString(w, "<R><securityGroupRuleSet>")
			for i := range 10 {
				_, _ = fmt.Fprintf(
					w,
					"<item><securityGroupRuleId>sgr-%d</securityGroupRuleId><ipProtocol>tcp</ipProtocol><fromPort>%[1]d</fromPort><toPort>%[1]d</toPort><cidrIpv4>10.0.0.0/8</cidrIpv4></item>",
					10*pages+i,
				)
			}
			_, _ = fmt.Fprintf(w, "</securityGroupRuleSet><nextToken>%d</nextToken></R>", pages)
		})
		rule := func(port int) []cloud.Rule {
			return []cloud.Rule{{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, port, port), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}}}
		}
		p := openHostile(t, endpoint.URL, bounds)
		_, err := p.Apply(t.Context(), cloud.Scope{Region: region}, cloud.Op{Kind: cloud.OpReplaceRules, Target: "sg-01234567", Replaced: rule(1), Rules: rule(2)})
		if over := (*cloud.BoundError)(nil); !errors.As(err, &over) || !strings.Contains(err.Error(), want) || pages > 20 {
			t.Errorf("%d pages: %v; want %s", pages, err, want)
		}
	}
}
