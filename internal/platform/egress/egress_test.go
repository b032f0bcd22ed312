package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"loopback": "", "ec2.cloud.example": "", "EC2.Cloud.Example.:8443": "", "10.0.0.0/8": "", "10.1.2.3": "", "10.1.2.3:8555": "", "2001:db8::1": "",
		"[2001:db8::1]": "", "[2001:db8::1]:443": "", "fd00::/8": "", " ec2.cloud.example ": "", "169.254.169.254": "",
		"":                       "want HOST",
		"http://ec2.example":     "want HOST",
		"ec2.example/path":       "want HOST",
		"*.example":              "patterns and URLs are not known",
		"*":                      "patterns and URLs are not known",
		"10.0.0.1/8":             "want 10.0.0.0/8",
		"10.0.0.0/33":            "want HOST",
		"ec2.example:0":          "not a number from 1 to 65535",
		"ec2.example:https":      "not a number from 1 to 65535",
		"ec2.example:70000":      "not a number from 1 to 65535",
		"a b":                    "want HOST",
		"user@ec2.example":       "want HOST",
		"-ec2.example":           "want HOST",
		strings.Repeat("a", 254): "want HOST",
	} {
		if _, err := Parse([]string{rule}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", rule, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules   string
		url     string
		allowed bool
	}{
		{"", "http://127.0.0.1:1", false},
		{"", "https://ec2.example", false},
		{"loopback", "http://127.0.0.1:1", true},
		{"loopback", "http://127.8.9.10", true},
		{"loopback", "http://[::1]:1", true},
		{"loopback", "http://[::ffff:127.0.0.1]:1", true},
		{"loopback", "http://localhost:8555", true},
		{"loopback", "http://LOCALHOST.:8555", true},
		{"loopback", "http://0.0.0.0:1", false},
		{"loopback", "http://169.254.169.254", false},
		{"loopback", "http://ec2.example", false},
		{"loopback", "http://localhost.example", false},
		{"loopback", "http://2130706433", false},
		{"ec2.example", "https://ec2.example", true},
		{"ec2.example", "http://EC2.example.:8080", true},
		{"ec2.example", "https://ec2.example.evil.example", false},
		{"ec2.example", "https://evil.example#ec2.example", false},
		{"ec2.example", "https://ec2.example@evil.example", false},
		{"ec2.example:443", "https://ec2.example", true},
		{"ec2.example:443", "http://ec2.example", false},
		{"ec2.example:80", "http://ec2.example", true},
		{"ec2.example:8443", "https://ec2.example", false},
		{"10.0.0.0/8", "http://10.1.2.3", true},
		{"10.0.0.0/8", "http://11.1.2.3", false},
		{"10.0.0.0/8", "http://[::ffff:10.1.2.3]", true},
		{"10.0.0.0/8", "http://some.name", true}, // the address decides when it is connected to
		{"0.0.0.0/0", "http://169.254.169.254", false},
		{"::/0", "http://[fd00:ec2::254]", false},
		{"::/0", "http://[fe80::1]", false},
		{"169.254.169.254", "http://169.254.169.254", true},
		{"169.254.169.254:80", "http://169.254.169.254:81", false},
		{"169.254.0.0/16", "http://169.254.169.254", true},
		{"fd00:ec2::254", "http://[fd00:ec2::254]", true},
		{"10.1.2.3:8555", "http://10.1.2.3:8555", true},
		{"10.1.2.3:8555", "http://10.1.2.3:8556", false},
	} {
		var list []string
		if c.rules != "" {
			list = strings.Split(c.rules, ",")
		}
		r, err := Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		var refused *RefusedError
		if err := r.Check(u); (err == nil) != c.allowed || err != nil && !errors.As(err, &refused) {
			t.Errorf("%q: %s: %v; want allowed %t", c.rules, c.url, err, c.allowed)
		}
	}
}

// names is a name server on this machine whose answers may change between two questions.
type names struct {
	mu      sync.Mutex
	answers []net.IP // one after the other; the last stays
	asked   int
}

// serve answers questions about addresses until the test ends, and returns the resolver that asks
// it.
func (n *names) serve(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(n.answer(buffer[:size]), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer makes an answer of a question: A records get the address whose turn it is, all others
// nothing.
func (n *names) answer(question []byte) []byte {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5
	out := append([]byte{}, question[:end]...)
	out[2], out[3] = 0x84, 0
	for i := 6; i < 12; i++ {
		out[i] = 0
	}
	if question[end-3] != 1 { // not A
		return out
	}
	n.mu.Lock()
	ip := n.answers[min(n.asked, len(n.answers)-1)].To4()
	n.asked++
	n.mu.Unlock()
	out[7] = 1
	return append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ip[0], ip[1], ip[2], ip[3])
}

// TestDial: of a host that no rule names, the address at the moment of connecting decides; so a
// name whose address changes after it was checked leads nowhere.
func TestDial(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("here")) }))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	local, other, metadata := net.IPv4(127, 0, 0, 1), net.IPv4(10, 255, 255, 1), net.IPv4(169, 254, 169, 254)
	for name, c := range map[string]struct {
		rules   []string
		answers []net.IP
		want    []bool // of calls one after the other, whether they get through
	}{
		"range":                         {[]string{"loopback"}, []net.IP{local}, []bool{true, true}},
		"another address":               {[]string{"192.0.2.0/24"}, []net.IP{local}, []bool{false}},
		"rebinding":                     {[]string{"10.0.0.0/8"}, []net.IP{local}, []bool{false}},
		"rebinding after a good answer": {[]string{"loopback"}, []net.IP{local, other}, []bool{true, false}},
		"name":                          {[]string{"tenant.example"}, []net.IP{local}, []bool{true}},
		"name of the metadata service":  {[]string{"tenant.example", "0.0.0.0/0"}, []net.IP{metadata}, []bool{false}},
		"nothing":                       {nil, []net.IP{local}, []bool{false}},
	} {
		rules, err := Parse(c.rules)
		if err != nil {
			t.Fatal(err)
		}
		dialer := &net.Dialer{Timeout: 5 * time.Second, Resolver: (&names{answers: c.answers}).serve(t)}
		client := http.Client{Transport: &http.Transport{DialContext: rules.Dial(dialer), DisableKeepAlives: true}}
		for i, want := range c.want {
			resp, err := client.Get("http://tenant.example:" + at.Port())
			if err == nil {
				_ = resp.Body.Close()
			}
			var refused *RefusedError
			if (err == nil) != want || err != nil && !errors.As(err, &refused) {
				t.Errorf("%s, call %d: %v; want through: %t", name, i, err, want)
			}
		}
	}
}

// TestAddressesOfCredentials: where clouds give out credentials nobody gets by a rule about more
// than that, in whatever form the address is written, and everybody by a rule that names it.
func TestAddressesOfCredentials(t *testing.T) {
	t.Parallel()
	everything, err := Parse([]string{"0.0.0.0/0", "::/0", "168.63.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "fd20::/16", "64:ff9b::/96", "2002::/16"})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		"169.254.169.254", "fe80::a9fe:a9fe", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "fd20:ce::254", "192.0.0.192",
		"::ffff:168.63.129.16", "::ffff:169.254.169.254", "::169.254.169.254", "::100.100.100.200", // mapped, and the old form
		"64:ff9b::169.254.169.254", "64:ff9b::168.63.129.16", "64:ff9b::169.254.1.1", // NAT64
		"64:ff9b:1::192.0.0.192", "2001:db8:0:1::100.100.100.200", "2001:db8:a9fe:a9fe::", "2001:db8:5ea9:fea9:fe::", "2001:db8::a9:fea9:fe00:0", // behind a prefix of one's own
		"2002:a9fe:a9fe::1", "2002:6464:64c8::", // 6to4
		"2001:0:a9fe:a9fe::", "2001::5601:5601", // Teredo, by its server and its client
		"2001:db8::5efe:169.254.169.254", "2001:db8::200:5efe:192.0.0.192", // ISATAP
	} {
		host := address
		if strings.Contains(address, ":") {
			host = "[" + address + "]"
		}
		u, err := url.Parse("http://" + host + "/latest/meta-data")
		if err != nil {
			t.Fatal(err)
		}
		if err := everything.Check(u); err == nil {
			t.Errorf("%s is allowed by a rule about everything", address)
		}
		_, err = everything.Dial(&net.Dialer{Timeout: time.Second})(t.Context(), "tcp", net.JoinHostPort(address, "80"))
		if refused := (*RefusedError)(nil); !errors.As(err, &refused) {
			t.Errorf("%s is dialled by a rule about everything: %v", address, err)
		}
		exactly, err := Parse([]string{address})
		if err != nil {
			t.Fatal(err)
		}
		if err := exactly.Check(u); err != nil {
			t.Errorf("%s is refused by a rule that names it: %v", address, err)
		}
	}
	for _, address := range []string{"168.63.129.17", "100.100.100.201", "192.0.0.193", "64:ff9b::192.0.2.1", "2002:c000:201::1", "2001:db8::1", "2600:1f18::a9fe:a9ff"} {
		u, err := url.Parse("http://" + net.JoinHostPort(address, "80"))
		if err != nil {
			t.Fatal(err)
		}
		if err := everything.Check(u); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
