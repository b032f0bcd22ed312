package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// The bounds that the hostile endpoints meet: lower than the defaults, so that nobody has to send
// 600 MB for the test.
const (
	boundBytes, boundPages, boundObjects = 4_000_000, 100, 20_000
	// enough is the most that one hostile endpoint sends in one answer, so that a build without
	// bounds does not take the machine with it.
	enough = 120 << 20
	// slowOnes is more than the inventory reads accounts at the same time.
	slowOnes = 20
)

const namespaceOfEC2 = "http://ec2.amazonaws.com/doc/2016-11-15/"

// ec2Answer is an answer of EC2 with a list, and a token if there are more.
func ec2Answer(action, set, items, token string) string {
	if token != "" {
		token = "<nextToken>" + token + "</nextToken>"
	}
	return fmt.Sprintf(
		`<?xml version="1.0" encoding="UTF-8"?><%sResponse xmlns="%s"><requestId>r</requestId><%s>%s</%s>%s</%sResponse>`,
		action,
		namespaceOfEC2,
		set,
		items,
		set,
		token,
		action,
	)
}

// stsAnswer says whose keys they are.
func stsAnswer(account string) string {
	return `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::` + account + `:user/x</Arn><UserId>AIDAX</UserId><Account>` +
		account + `</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></GetCallerIdentityResponse>`
}

// answerLists are the lists of the answers, by action.
var answerLists = map[string]string{
	"DescribeVpcs":                  "vpcSet",
	"DescribeInstances":             "reservationSet",
	"DescribeNetworkInterfaces":     "networkInterfaceSet",
	"DescribeSecurityGroups":        "securityGroupInfo",
	"DescribeVpcPeeringConnections": "vpcPeeringConnectionSet",
}

// machines are VMs, without interfaces, in a VPC that is not there.
func machines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(
			&b,
			`<item><reservationId>r-%d</reservationId><ownerId>999999999999</ownerId><instancesSet><item><instanceId>i-%017x</instanceId><instanceState><code>16</code><name>running</name></instanceState>`+
				`<vpcId>vpc-00000000000000001</vpcId><tagSet><item><key>role</key><value>db</value></item></tagSet></item></instancesSet></item>`,
			i,
			i,
		)
	}
	return b.String()
}

// hostile is one way to answer: it answers an action, or returns false for an honest empty answer.
type hostile func(w http.ResponseWriter, r *http.Request, action string, form url.Values) bool

// only answers one action in a hostile way.
func only(want string, h func(w http.ResponseWriter, r *http.Request)) hostile {
	return func(w http.ResponseWriter, r *http.Request, action string, _ url.Values) bool {
		if action != want {
			return false
		}
		h(w, r)
		return true
	}
}

// text answers an action with a text.
func textAnswer(action, contentType string, code int, text string) hostile {
	return only(action, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	})
}

// flood sends something, and then one thing again and again.
func flood(action, first, again string) hostile {
	chunk := []byte(strings.Repeat(again, 1+65536/len(again)))
	return only(action, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.WriteString(w, first)
		for sent := 0; sent < enough && r.Context().Err() == nil; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
}

// drip sends one character every now and then, for ever.
func drip(action string) hostile {
	return only(action, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			select {
			case <-r.Context().Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	})
}

// bomb is a short answer that becomes a long one.
func bomb(action string) hostile {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := bytes.Repeat([]byte("<!-- -->"), 8192)
	for sent := 0; sent < enough; sent += len(zeros) {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	return only(action, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(b.Bytes())
	})
}

// pagesOf answers an action with pages without end, each with some VMs.
func pagesOf(action string, perPage int, token func(n int64) string) hostile {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, got string, _ url.Values) bool {
		if got != action {
			return false
		}
		at := n.Add(1)
		items := ""
		if action == "DescribeInstances" {
			items = machines(int(at)*perPage, (int(at)+1)*perPage)
		}
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.WriteString(w, ec2Answer(action, answerLists[action], items, token(at)))
		return true
	}
}

// hostileCase is one endpoint with what its account must say in the end; nothing if that takes too
// long to wait for.
type hostileCase struct {
	h    hostile
	says []string
}

func hostileCases() map[string]hostileCase {
	deep := strings.Repeat("<a>", 400_000)
	counted := func(n int64) string { return fmt.Sprint("t", n) }
	return map[string]hostileCase{
		"endless-sts":     {flood("GetCallerIdentity", `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>`, "x"), []string{"max-answer-bytes"}},
		"endless-text":    {flood("DescribeVpcs", `<DescribeVpcsResponse><vpcSet><item><vpcId>`, "x"), []string{"max-answer-bytes"}},
		"endless-items":   {flood("DescribeInstances", `<DescribeInstancesResponse><reservationSet>`, machines(0, 1)), []string{"max-answer-bytes"}},
		"endless-error":   {flood("DescribeVpcs", `<Response><Errors><Error><Code>Un</Code><Message>`, "x"), []string{"max-answer-bytes"}},
		"endless-comment": {flood("DescribeSecurityGroups", `<!-- `, "x"), []string{"max-answer-bytes"}},
		"endless-pages":   {pagesOf("DescribeInstances", 1, counted), []string{"max-pages"}},
		"empty-pages":     {pagesOf("DescribeNetworkInterfaces", 0, counted), []string{"max-pages"}},
		"the-same-page":   {pagesOf("DescribeSecurityGroups", 0, func(int64) string { return "t" }), nil},
		"objects":         {pagesOf("DescribeInstances", 1000, counted), []string{"max-objects"}},
		"gzip-bomb":       {bomb("DescribeVpcs"), nil},
		"deep":            {textAnswer("DescribeVpcs", "text/xml", 200, "<DescribeVpcsResponse><vpcSet>"+deep), nil},
		"malformed":       {textAnswer("DescribeVpcs", "text/xml", 200, "<DescribeVpcsResponse><vpcSet></item>&#0;"), nil},
		"cut-off":         {textAnswer("DescribeInstances", "text/xml", 200, "<DescribeInstancesResponse><reservationSet><item>"), nil},
		"html":            {textAnswer("DescribeVpcs", "text/html", 200, "<html><body>hello</body></html>"), nil},
		"json":            {textAnswer("GetCallerIdentity", "application/json", 200, `{"Account": "111111111111"}`), nil},
		"empty":           {textAnswer("DescribeNetworkInterfaces", "", 200, ""), nil},
		"throttles": {
			textAnswer(
				"DescribeVpcs",
				"text/xml",
				503,
				`<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>later</Message></Error></Errors><RequestID>r</RequestID></Response>`,
			),
			nil,
		},
		"the-same-VM-ever": {textAnswer("DescribeInstances", "text/xml", 200, ec2Answer("DescribeInstances", "reservationSet", strings.Repeat(machines(7, 8), 1000), "")), nil},
		"a-fat-VM": {textAnswer("DescribeInstances", "text/xml", 200, ec2Answer("DescribeInstances", "reservationSet",
			strings.Replace(machines(8, 9), "<value>db</value>", "<value>"+strings.Repeat("x", 3_000_000)+"</value>", 1), "")), nil},
		"no-ids": {textAnswer("DescribeInstances", "text/xml", 200, ec2Answer("DescribeInstances", "reservationSet",
			strings.ReplaceAll(machines(9, 10), "i-00000000000000009", "../../ns-a/<!-- -->"), "")), nil},
		"another-time": {only("DescribeVpcs", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", "Thu, 01 Jan 2099 00:00:00 GMT")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `<Response><Errors><Error><Code>RequestExpired</Code><Message>late</Message></Error></Errors></Response>`)
		}), nil},
	}
}

// serveHostile starts an endpoint.
func serveHostile(t *testing.T, h hostile) (endpoint string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			form, _ := url.ParseQuery(string(body))
			action := form.Get("Action")
			if target := r.Header.Get("X-Amz-Target"); target != "" {
				action = target
			}
			if h(w, r, action, form) {
				return
			}
			w.Header().Set("Content-Type", "text/xml")
			if action == "GetCallerIdentity" {
				_, _ = io.WriteString(w, stsAnswer("999999999999"))
				return
			}
			_, _ = io.WriteString(w, ec2Answer(action, answerLists[action], "", ""))
		}),
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		server.Close()
	})
	return "http://" + l.Addr().String(), asked
}

// selectorOf selects all VMs of an account of ns-b that have the tag role.
func (a *arena) selectorOf(account string) *unstructured.Unstructured {
	a.t.Helper()
	o := a.text(attackSelector)
	o.SetName(account)
	set(o, account, "spec", "accountName")
	set(o, []any{map[string]any{"tagMatch": []any{map[string]any{"key": "role"}}}}, "spec", "vmSelector")
	return o
}

// hostileFlags are those under which hostile endpoints are met.
func hostileFlags() []string {
	return []string{
		"--allowed-endpoints=loopback",
		fmt.Sprint("--max-answer-bytes=", boundBytes),
		fmt.Sprint("--max-pages=", boundPages),
		fmt.Sprint("--max-objects=", boundObjects),
	}
}

// hostileEndpoints: whatever an endpoint answers, the accounts of others are read and enforced
// within markLimit, and the process stays as large as it is.
func (a *arena) hostileEndpoints(t *testing.T) {
	a.within(t)
	a.c.args = knownFlags(t, hostileFlags()...)
	a.restart()
	a.unharmed(t)
	m := memory{t, a.c.process.cmd.Process.Pid}
	m.reset()
	before := m.read("VmRSS")
	t.Run("the accounts of another cloud with the same ids", a.twin)
	var made []*unstructured.Unstructured
	attack := func(name, endpoint string) {
		o := a.attackerAccount(name, endpoint)
		a.create(o)
		a.create(a.selectorOf(name))
		made = append(made, o)
	}
	a.create(a.text(openPolicies))
	cases := hostileCases()
	t.Run("answers", func(t *testing.T) {
		a.within(t)
		for _, name := range sortedNamesOf(cases) {
			endpoint, _ := serveHostile(t, cases[name].h)
			attack(strings.ToLower(name), endpoint)
		}
		for range 5 {
			a.unharmed(t)
		}
		for _, name := range sortedNamesOf(cases) {
			a.complains(t, strings.ToLower(name), cases[name].says)
		}
		a.unharmed(t)
		m.grown(t, before, 256<<20)
	})
	t.Run("no answers", func(t *testing.T) {
		a.within(t)
		for n := range slowOnes {
			endpoint, _ := serveHostile(t, drip([]string{"GetCallerIdentity", "DescribeVpcs", "DescribeInstances"}[n%3]))
			attack(fmt.Sprint("slow-", n), endpoint)
		}
		for range 5 {
			a.unharmed(t)
		}
	})
	t.Run("a queue that never waits", func(t *testing.T) {
		a.within(t)
		endpoint, asked := serveHostile(t, func(w http.ResponseWriter, _ *http.Request, action string, _ url.Values) bool {
			if !strings.HasPrefix(action, "AmazonSQS.") {
				return false
			}
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			_, _ = io.WriteString(w, `{"Messages": [{"MessageId": "1", "ReceiptHandle": "r", "Body": "{}", "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b"}]}`)
			return true
		})
		o := a.attackerAccount("queue", endpoint)
		set(o, []any{map[string]any{"url": endpoint + "/999999999999/events"}}, "spec", "awsConfig", "eventQueue")
		a.create(o)
		eventuallyNil(t, "the queue is read", func(context.Context) error {
			if asked.Load() < 3 {
				return errors.New("it is not")
			}
			return nil
		})
		begin, count := time.Now(), asked.Load()
		a.unharmed(t)
		a.unharmed(t)
		if rate := float64(asked.Load()-count) / time.Since(begin).Seconds(); rate > 30 { // twice in a tenth of a second, and what comes at the ends
			t.Errorf("THE QUEUE IS ASKED %.0f TIMES A SECOND", rate)
		}
	})
	m.grown(t, before, 256<<20)
}

// complains waits until an account says that it cannot be read, and names the bound that was met,
// in its conditions.
func (a *arena) complains(t *testing.T, name string, says []string) {
	t.Helper()
	err := soon(t, func(ctx context.Context) error {
		var cpa cloudv1.CloudProviderAccount
		if err := a.c.client.Get(ctx, client.ObjectKey{Namespace: attackerNS, Name: name}, &cpa); err != nil {
			return err
		}
		c := meta.FindStatusCondition(cpa.Status.Conditions, cloudv1.ConditionReady)
		if c == nil {
			return errors.New("it was not looked at")
		}
		if len(c.Message) > 32768 {
			return fmt.Errorf("its message has %d characters", len(c.Message))
		}
		for _, word := range says {
			if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, word) {
				return fmt.Errorf("want Ready=False and %q: %s %s %s", word, c.Status, c.Reason, tail(c.Message, 300))
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("account %s: %v", name, err)
	}
}

// twin is an endpoint of the attacker's that says what the owner's says, but for the keys: the same
// account number, the same ids, the same tags of ours. Everything may be done there; nothing may be
// done to the owner for it.
func (a *arena) twin(t *testing.T) {
	a.within(t)
	state := a.server.World().State()
	for i := range state.Credentials {
		if state.Credentials[i].AccessKeyID == attackerKey {
			state.Credentials[i].Account = ownerCloud
		}
	}
	// In the twin her key is the owner's only, and everything is wide open.
	state.Credentials = append(state.Credentials, aws.Credential{AccessKeyID: "AKIATWIN000000000000", Secret: keySecret, Account: ownerCloud})
	twin, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	must(t, err)
	t.Cleanup(func() {
		if err := twin.Close(); err != nil {
			t.Error(err)
		}
	})
	a.create(a.text(openPolicies))
	a.create(a.attackerAccount("twin", twin.URL()))
	s := a.selectorOf("twin")
	annotate(s, cloudv1.AnnotationBreakGlass, "mine")
	a.create(s)
	eventuallyNil(t, "the twin is read", func(ctx context.Context) error {
		var cpa cloudv1.CloudProviderAccount
		if err := a.c.client.Get(ctx, client.ObjectKey{Namespace: attackerNS, Name: "twin"}, &cpa); err != nil {
			return err
		}
		if cpa.Status.CloudAccountID != ownerCloud {
			return fmt.Errorf("%+v", cpa.Status)
		}
		return nil
	})
	a.unharmed(t)
	// Released there, by the state that only the twin has now, and taken over once more.
	must(t, a.patch(s, `{"metadata": {"annotations": null}}`))
	a.unharmed(t)
	must(t, a.patch(s, `{"spec": {"mode": "released"}}`))
	a.unharmed(t)
	a.restore()
}
