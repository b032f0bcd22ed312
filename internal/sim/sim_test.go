package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

const region = "eu-west-1"

// small is one account with one default VPC, made by the simulator itself.
func small() simaws.State {
	return simaws.State{
		Accounts:    []simaws.Account{{ID: "111111111111", Regions: []string{region}}},
		Credentials: []simaws.Credential{{AccessKeyID: estate.DefaultAccessKeyID, Secret: estate.DefaultSecret, Account: "111111111111"}},
	}
}

func start(t *testing.T, o sim.Options) *sim.Server {
	t.Helper()
	if o.State.Accounts == nil {
		o.State = small()
	}
	s, err := sim.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func client(s *sim.Server) *awsec2.Client {
	return awsec2.New(awsec2.Options{
		Region: region, BaseEndpoint: aws.String(s.URL()), Retryer: aws.NopRetryer{},
		HTTPClient:  &http.Client{Transport: sim.Transport(&http.Transport{})},
		Credentials: credentials.NewStaticCredentialsProvider(estate.DefaultAccessKeyID, estate.DefaultSecret, ""),
	})
}

// admin calls an admin endpoint and decodes the answer; it returns the HTTP status.
func admin(t *testing.T, s *sim.Server, call, body string, into any) int {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	r, err := http.NewRequest(method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%s: %v in %s", call, err, data)
		}
	}
	return answer.StatusCode
}

// build makes a VPC with two subnets' worth of hosts by way of the admin endpoints and returns its
// ids.
func build(t *testing.T, s *sim.Server) (subnet, group string) {
	t.Helper()
	c := client(s)
	vpc, err := c.CreateVpc(context.Background(), &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	sn, err := c.CreateSubnet(context.Background(), &awsec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, CidrBlock: aws.String("10.0.0.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := c.DescribeSecurityGroups(context.Background(), &awsec2.DescribeSecurityGroupsInput{})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(sn.Subnet.SubnetId), aws.ToString(groups.SecurityGroups[0].GroupId)
}

func TestStory(t *testing.T) {
	s := start(t, sim.Options{})
	subnet, group := build(t, s)
	for _, name := range []string{"web", "db"} {
		var res simaws.Reservation
		body := fmt.Sprintf(`{"subnet": %q, "groups": [%q], "name": %q, "tags": {"env": "test"}}`, subnet, group, name)
		if code := admin(t, s, "POST /_sim/run", body, &res); code != 200 || len(res.Instances) != 1 || res.Instances[0].Tags["env"] != "test" {
			t.Fatalf("run: %d %+v", code, res)
		}
	}
	var v packet.Verdict
	ask := func(query string) packet.Verdict {
		v = packet.Verdict{}
		if code := admin(t, s, "GET /_sim/allowed?"+query, "", &v); code != 200 {
			t.Errorf("%s: status %d", query, code)
		}
		return v
	}
	if v := ask("src=web&dst=db&proto=tcp&port=22"); !v.Allowed || v.Reason == "" {
		t.Errorf("members of the default group reach one another: %+v", v)
	}
	if v := ask("src=198.51.100.7&dst=db&proto=icmp&type=8"); v.Allowed {
		t.Errorf("nobody else does: %+v", v)
	}
	region, err := s.World().Region("111111111111", region)
	if err != nil {
		t.Fatal(err)
	}
	instances, err := region.Instances()
	if err != nil || len(instances) != 2 {
		t.Fatalf("%d instances, %v", len(instances), err)
	}
	one := instances[0]
	if v := ask("src=" + one.ID + "&dst=" + one.Primary().ID + "&proto=17&port=53"); !v.Allowed {
		t.Errorf("a machine reaches itself: %+v", v)
	}
	if code := admin(t, s, "POST /_sim/tags", fmt.Sprintf(`{"resources": [%q], "set": {"Name": "x", "k": "v"}, "remove": ["env"]}`, one.ID), nil); code != 200 {
		t.Errorf("tags: status %d", code)
	}
	if code := admin(t, s, "POST /_sim/terminate", fmt.Sprintf(`{"instances": [%q]}`, instances[1].ID), nil); code != 200 {
		t.Errorf("terminate: status %d", code)
	}
	instances, err = region.Instances()
	if err != nil || instances[0].Tags["k"] != "v" || instances[0].Tags["env"] != "" || instances[1].State != simaws.Terminated {
		t.Errorf("after tags and termination: %+v, %v", instances, err)
	}
	var state simaws.State
	if admin(t, s, "GET /_sim/state", "", &state); len(state.Regions) != 1 || len(state.Regions[0].VPCs) != 1 {
		t.Errorf("state: %+v", state)
	}
}

func TestAdminRefusals(t *testing.T) {
	s := start(t, sim.Options{})
	for _, call := range []struct{ call, body, want string }{
		{"GET /_sim/allowed?src=10.0.0.1&dst=nobody", "", `there is no instance`},
		{"GET /_sim/allowed?src=10.0.0.1&dst=10.0.0.2&proto=carrier-pigeon", "", "carrier-pigeon"},
		{"GET /_sim/allowed?src=10.0.0.1&dst=10.0.0.2&port=x", "", `port is \"x\"`},
		{"GET /_sim/journal?after=x", "", "sequence number"},
		{"POST /_sim/advance?by=soon", "", "expected a duration"},
		{"POST /_sim/advance?by=-1h", "", "expected a duration"},
		{"POST /_sim/faults", `{"acton": "X"}`, "unknown field"},
		{"POST /_sim/faults", `{}`, "action is empty"},
		{"POST /_sim/faults", `{"action": "*", "delay": "long"}`, "expected a duration"},
		{"DELETE /_sim/faults?id=x", "", "id of a fault"},
		{"POST /_sim/quotas", `{"groupsPerInterface": 99}`, "at most 16"},
		{"POST /_sim/peering?id=pcx-1&status=active", "", "pcx-1"},
		{"POST /_sim/run", `{"subnet": "subnet-00000000"}`, "subnet-00000000"},
		{"POST /_sim/run", `{"account": "999999999999"}`, "AuthFailure"},
		{"POST /_sim/terminate", `{"instances": ["i-00000000"]}`, "i-00000000"},
	} {
		var answer struct{ Error string }
		code := admin(t, s, call.call, call.body, &answer)
		if want := strings.ReplaceAll(call.want, `\"`, `"`); code != http.StatusBadRequest || !strings.Contains(answer.Error, want) {
			t.Errorf("%s: %d %q, want %q", call.call, code, answer.Error, want)
		}
	}
	r, err := http.NewRequest(http.MethodGet, s.URL()+"/_sim/state", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "http://evil.example")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin gets %s", answer.Status)
	}
}

// TestAdminIsLocal asks by an address of this machine that is not a loopback one, if there is any.
func TestAdminIsLocal(t *testing.T) {
	s := start(t, sim.Options{Listen: "0.0.0.0:0"})
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
		t.Fatalf("URL is %s", s.URL())
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	port := s.URL()[strings.LastIndex(s.URL(), ":"):]
	for _, a := range addresses {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		answer, err := http.Get("http://" + ip.IP.String() + port + "/_sim/state")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s gets %s", ip.IP, answer.Status)
		}
	}
}

func TestAdminKnobs(t *testing.T) {
	s := start(t, sim.Options{Throttle: true})
	c := client(s)
	ctx := context.Background()
	before := s.Now()
	if admin(t, s, "POST /_sim/advance?by=1h", "", nil); s.Now().Sub(before) < time.Hour {
		t.Errorf("an hour later it is %s", s.Now().Sub(before))
	}
	var id struct{ ID int }
	admin(t, s, "POST /_sim/faults", `{"action": "DescribeVpcs", "code": "Unavailable", "times": -1, "delay": "1ms"}`, &id)
	_, err := c.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{})
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "Unavailable" {
		t.Errorf("with the fault: %v", err)
	}
	var faults map[string]struct{ Action, Delay string }
	if admin(t, s, "GET /_sim/faults", "", &faults); faults[fmt.Sprint(id.ID)].Delay != "1ms" {
		t.Errorf("faults: %+v", faults)
	}
	admin(t, s, fmt.Sprintf("DELETE /_sim/faults?id=%d", id.ID), "", nil)
	if _, err := c.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{}); err != nil {
		t.Errorf("without it: %v", err)
	}
	admin(t, s, "POST /_sim/faults", `{"action": "*", "drop": true}`, nil)
	admin(t, s, "DELETE /_sim/faults", "", nil)
	if _, err := c.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{}); err != nil {
		t.Errorf("after all faults have gone: %v", err)
	}
	var calls []ec2.Call
	if admin(t, s, "GET /_sim/journal?after=1&action=DescribeVpcs", "", &calls); len(calls) != 1 || calls[0].Seq != 2 || calls[0].Account == "" {
		t.Errorf("journal: %+v", calls)
	}
	var counts map[string]int
	if admin(t, s, "GET /_sim/counts", "", &counts); counts["DescribeVpcs"] != 2 || counts["DescribeSubnets"] != 1 {
		t.Errorf("counts: %v", counts)
	}
	admin(t, s, "DELETE /_sim/journal", "", nil)
	var look struct {
		Calls     int
		Throttled bool
		Accounts  []simaws.Account
	}
	if admin(t, s, "GET /_sim/", "", &look); look.Calls != 3 || !look.Throttled || len(look.Accounts) != 1 || len(s.Journal().Calls(0)) != 0 {
		t.Errorf("overview: %+v", look)
	}
	var q simaws.Quotas
	if admin(t, s, "POST /_sim/quotas", `{"vpcsPerRegion": 1}`, &q); q.VPCsPerRegion != 1 || q.RulesPerGroup != 60 {
		t.Errorf("quotas: %+v", q)
	}
	admin(t, s, "POST /_sim/effect-delay?delay=5s&seed=7", "", nil)
	if d := s.World().State().Effects; d != (effect.Delay{Bound: 5 * time.Second, Seed: 7}) {
		t.Errorf("the effect delay is %v", d)
	}
	admin(t, s, "POST /_sim/visibility-delay?delay=1h", "", nil)
	vpc, err := c.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{*vpc.Vpc.VpcId}})
	if !errors.As(err, &api) || api.ErrorCode() != "InvalidVpcID.NotFound" {
		t.Errorf("with a visibility delay: %v", err)
	}
	_, err = c.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.1.0.0/16")})
	if !errors.As(err, &api) || api.ErrorCode() != "VpcLimitExceeded" {
		t.Errorf("beyond the quota: %v", err)
	}
}

func TestStartErrors(t *testing.T) {
	s := start(t, sim.Options{})
	address := strings.TrimPrefix(s.URL(), "http://")
	if _, err := sim.Start(context.Background(), sim.Options{State: small(), Listen: address}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("port in use: %v", err)
	}
	bad := small()
	bad.Accounts[0].ID = "x"
	if _, err := sim.Start(context.Background(), sim.Options{State: bad}); err == nil || !strings.Contains(err.Error(), "12 digits") {
		t.Errorf("bad estate: %v", err)
	}
	file := filepath.Join(t.TempDir(), "none", "state.json")
	if _, err := sim.Start(context.Background(), sim.Options{State: small(), StateFile: file}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state file in a folder that is not there: %v", err)
	}
}

// TestCloseEndsEverything: no goroutine outlives Close.
func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		s, err := sim.Start(context.Background(), sim.Options{State: small(), StateFile: filepath.Join(t.TempDir(), "s.json")})
		if err != nil {
			t.Fatal(err)
		}
		build(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		<-s.Done()
	}
	for deadline := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestEmbeddedAccount reads the demonstration account through the wire.
func TestEmbeddedAccount(t *testing.T) {
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, sim.Options{State: state})
	for _, r := range state.Regions {
		c := client(s)
		in := func(o *awsec2.Options) { o.Region = r.Name }
		ctx := context.Background()
		instances := 0
		pages := awsec2.NewDescribeInstancesPaginator(c, &awsec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			for _, res := range page.Reservations {
				instances += len(res.Instances)
			}
		}
		groups, err := c.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{}, in)
		if err != nil {
			t.Fatal(err)
		}
		nics, err := c.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{}, in)
		if err != nil {
			t.Fatal(err)
		}
		if instances != len(r.Instances) || len(groups.SecurityGroups) != len(r.SecurityGroups) || len(nics.NetworkInterfaces) != len(r.NetworkInterfaces) {
			t.Errorf("%s: %d instances, %d groups, %d interfaces arrive", r.Name, instances, len(groups.SecurityGroups), len(nics.NetworkInterfaces))
		}
	}
}

// TestTransport reads a long answer often: the SDK's own handling of bodies would lose some of them
// (see Transport).
func TestTransport(t *testing.T) {
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, sim.Options{State: state})
	for range 100 {
		in := func(o *awsec2.Options) { o.Region = state.Regions[0].Name }
		if _, err := client(s).DescribeSecurityGroups(context.Background(), &awsec2.DescribeSecurityGroupsInput{}, in); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCloseWaitsForNoSpareConnection: clients open connections to spare, and Close does not wait
// for a request on one.
func TestCloseWaitsForNoSpareConnection(t *testing.T) {
	s := start(t, sim.Options{})
	spare, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer spare.Close()
	// The server accepts in order: with this answer, it has the spare connection.
	if status := admin(t, s, "GET /_sim/clock", "", nil); status >= http.StatusInternalServerError {
		t.Fatal(status)
	}
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("closing took %s", took)
	}
}
