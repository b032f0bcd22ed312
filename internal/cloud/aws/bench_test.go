package aws_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/pace"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

// crowd is an account with so many VMs of one interface each, 5,000 to a VPC, with 40 groups in
// each.
func crowd(vms int) simaws.State {
	const account, perVPC, groups = "111122223333", 5000, 40
	s := simaws.State{
		Accounts:    []simaws.Account{{ID: account, Regions: []string{region}}},
		Credentials: []simaws.Credential{{AccessKeyID: estate.DefaultAccessKeyID, Secret: estate.DefaultSecret, Account: account}},
	}
	r := simaws.RegionState{Account: account, Name: region}
	for v := range (vms + perVPC - 1) / perVPC {
		id := fmt.Sprintf("vpc-%017x", v+1)
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(v), 0, 0}), 16)
		r.VPCs = append(r.VPCs, simaws.VPC{ID: id, Account: account, State: "available", CIDRs: []simaws.CIDRBlock{{Prefix: block}}, Tags: simaws.Tags{"Name": fmt.Sprint("vpc", v)}})
		subnet := fmt.Sprintf("subnet-%017x", v+1)
		r.Subnets = append(r.Subnets, simaws.Subnet{ID: subnet, Account: account, VPCID: id, CIDR: block, Zone: simaws.Zone{Name: region + "a", ID: "usw2-az1"}, State: "available"})
		names := make([]string, groups)
		for g := range groups {
			name := fmt.Sprint("group", g)
			if g == 0 {
				name = "default"
			}
			names[g] = name
			gid := fmt.Sprintf("sg-%017x", v*groups+g+1)
			group := simaws.SecurityGroup{ID: gid, Account: account, VPCID: id, Name: name, Description: "d"}
			for n := range 5 {
				group.Rules = append(group.Rules, simaws.SecurityGroupRule{ID: fmt.Sprintf("sgr-%017x", (v*groups+g)*5+n+1), GroupID: gid, Account: account,
					Protocol: "tcp", FromPort: int32(n), ToPort: int32(n), CIDR: netip.MustParsePrefix("10.0.0.0/8")})
			}
			r.SecurityGroups = append(r.SecurityGroups, group)
		}
		for n := v * perVPC; n < min((v+1)*perVPC, vms); n++ {
			vm := fmt.Sprintf("i-%017x", n+1)
			r.Instances = append(r.Instances, simaws.Instance{ID: vm, Account: account, ReservationID: fmt.Sprintf("r-%017x", n+1), ImageID: "ami-00000000",
				InstanceType: "t3.micro", State: simaws.Running, VPCID: id, SubnetID: subnet, Zone: region + "a",
				Tags: simaws.Tags{"Name": fmt.Sprint("vm", n), "app": fmt.Sprint("app", n%20), "env": "prod", "owner": "somebody"}})
			i := n%perVPC + 10
			r.NetworkInterfaces = append(r.NetworkInterfaces, simaws.NetworkInterface{ID: fmt.Sprintf("eni-%017x", n+1), Account: account, VPCID: id,
				SubnetID: subnet, InterfaceType: "interface", Zone: region + "a", MAC: "0e:00:00:00:00:01", Status: simaws.StatusInUse,
				PrivateIPs: []simaws.PrivateIP{{Primary: true, Addr: netip.AddrFrom4([4]byte{10, byte(v), byte(i >> 8), byte(i)})}},
				Groups:     []simaws.GroupName{{ID: fmt.Sprintf("sg-%017x", v*groups+n%groups+1), Name: names[n%groups]}},
				Attachment: &simaws.Attachment{ID: fmt.Sprintf("eni-attach-%017x", n+1), InstanceID: vm, Status: "attached", DeleteOnTermination: true}})
		}
	}
	s.Regions = []simaws.RegionState{r}
	return s
}

// recording answers calls that it has seen before from memory, and lets the simulator answer the
// others: so that a benchmark measures the adapter and not the simulator. It counts the calls.
type recording struct {
	client awssdk.HTTPClient
	mu     sync.Mutex
	seen   map[string]*http.Response
	bodies map[string][]byte
	calls  map[string]int
}

func (r *recording) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	action, _, _ := bytes.Cut(bytes.TrimPrefix(body, []byte("Action=")), []byte("&"))
	r.calls[string(action)]++
	key := string(body)
	if r.seen[key] == nil {
		req.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := r.client.Do(req)
		if err != nil {
			return nil, err
		}
		if r.bodies[key], err = io.ReadAll(resp.Body); err != nil {
			return nil, err
		}
		r.seen[key] = resp
	}
	resp := *r.seen[key]
	resp.Body = io.NopCloser(bytes.NewReader(r.bodies[key]))
	return &resp, nil
}

func (r *recording) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = map[string]int{}
}

func (r *recording) total() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		n += c
	}
	return n
}

// BenchmarkObserve reads accounts of many VMs: whole, one VPC of them, and one VM of them again.
func BenchmarkObserve(b *testing.B) {
	for _, vms := range []int{10_000, 100_000} {
		server, err := sim.Start(context.Background(), sim.Options{State: crowd(vms)})
		if err != nil {
			b.Fatal(err)
		}
		rec := &recording{client: http.DefaultClient, seen: map[string]*http.Response{}, bodies: map[string][]byte{}, calls: map[string]int{}}
		p, err := aws.New(aws.Config{Region: region, Endpoint: server.URL(), Client: rec,
			Credential: v1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret}})
		if err != nil {
			b.Fatal(err)
		}
		scope := cloud.Scope{Account: "ns/account", Region: region}
		begin := time.Now()
		last, err := p.Observe(b.Context(), scope)
		if err != nil || len(last.VMs) != vms || len(last.Interfaces) != vms {
			b.Fatal(err)
		}
		b.Logf("%d VMs, as fast as the simulator answers: %s", vms, time.Since(begin).Round(time.Millisecond))
		narrow := p.Narrow([]cloud.NetworkMatch{{Name: "vpc1"}}).(*aws.Narrowed)
		one := []string{fmt.Sprintf("i-%017x", vms/2)}
		for name, f := range map[string]func() (*cloud.Snapshot, error){
			"whole":  func() (*cloud.Snapshot, error) { return p.Observe(b.Context(), scope) },
			"oneVPC": func() (*cloud.Snapshot, error) { return narrow.Observe(b.Context(), scope) },
			"oneVM":  func() (*cloud.Snapshot, error) { return p.Refresh(b.Context(), last, one) },
		} {
			if _, err := f(); err != nil { // record
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%d/%s", vms, name), func(b *testing.B) {
				rec.reset()
				b.ReportAllocs()
				for b.Loop() {
					if s, err := f(); err != nil || len(s.VMs) == 0 {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(rec.total())/float64(b.N), "calls/op")
			})
		}
		if err := server.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkImportServices reads an account of 1,000 services for the first time, at the rates that
// the cloud documents: a mixture of all kinds, and load balancers only.
func BenchmarkImportServices(b *testing.B) {
	for name, balancers := range map[string]int{"mixed": 200, "balancers": 1000} {
		b.Run(name, func(b *testing.B) {
			server, err := sim.Start(context.Background(), sim.Options{State: serving(b, 1000, balancers)})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			calls, ports := 0, 0
			for b.Loop() {
				limiter := pace.New(pace.Options{Now: time.Now, After: time.After, Rate: aws.Documented})
				var made atomic.Int64
				p, err := aws.New(aws.Config{
					Region: region, Endpoint: server.URL(),
					Credential: v1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret},
					Admit: func(ctx context.Context, owner, region, action string) (func(cloud.Class), error) {
						made.Add(1)
						return limiter.Admit(ctx, pace.Key{Account: owner, Region: region, Action: action})
					},
				})
				if err != nil {
					b.Fatal(err)
				}
				snap, err := p.Show(cloud.ServiceKinds()).Observe(b.Context(), cloud.Scope{Account: "ns/account", Region: region})
				if err != nil || len(snap.Services) != 1000 || len(snap.ServiceFaults) > 0 {
					b.Fatalf("%v: %d services, %+v", err, len(snap.Services), snap.ServiceFaults)
				}
				calls, ports = int(made.Load()), 0
				for i := range snap.Services {
					if len(snap.Services[i].Private) == 0 && snap.Services[i].Ambiguous == "" {
						b.Fatalf("%s has no address", snap.Services[i].ID)
					}
					if len(snap.Services[i].Ports) > 0 {
						ports++
					}
				}
			}
			b.ReportMetric(float64(calls), "calls")
			b.ReportMetric(float64(ports), "with-ports")
		})
	}
}

// serving is an account with so many services, of which some are load balancers with a target each.
func serving(b *testing.B, services, balancers int) simaws.State {
	b.Helper()
	var y strings.Builder
	y.WriteString("accounts:\n- id: \"111122223333\"\n  regions:\n  - name: " + region + "\n    vpcs:\n    - name: shop\n      id: vpc-00000001\n      cidrs: [10.0.0.0/16]\n" +
		"      groups:\n      - {name: web, rules: [\"tcp 80 from any\"]}\n      targetGroups:\n")
	for i := range balancers {
		fmt.Fprintf(&y, "      - {name: t%d, protocol: HTTP, port: 80, targets: [10.0.%d.%d]}\n", i, 200+i/250, 1+i%250)
	}
	y.WriteString("      services:\n")
	for i := range services {
		switch {
		case i < balancers:
			fmt.Fprintf(&y, "      - {kind: application-load-balancer, name: b%d, groups: [web], listeners: [HTTP 80 to t%d], tags: {app: a%d}}\n", i, i, i%20)
		case i%3 == 0:
			fmt.Fprintf(&y, "      - {kind: cache, name: c%d, engine: memcached, groups: [web]}\n", i)
		case i%3 == 1:
			fmt.Fprintf(&y, "      - {kind: endpoint, name: e%d, service: com.amazonaws.us-west-2.sqs, groups: [web]}\n", i)
		default:
			fmt.Fprintf(&y, "      - {kind: file-system, name: f%d, groups: [web]}\n", i)
		}
	}
	state := estatetest.Parse(b, y.String())
	return state
}
