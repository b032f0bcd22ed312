package listen

import (
	"io"
	"net"
	"strconv"
	"testing"
)

// TestListenForHosts: a server for other machines is reached at localhost, too, by kube-apiserver.
func TestListenForHosts(t *testing.T) {
	for address, local := range map[string]bool{"127.0.0.2:0": false, "127.0.0.1:0": true, "0.0.0.0:0": true} {
		l, err := On(t.Context(), address, local, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, two := l.(*listeners); two {
			t.Errorf("%s: listens twice", address)
		}
		_ = l.Close()
	}
	var c net.ListenConfig
	first, err := c.Listen(t.Context(), "tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(first.Addr().(*net.TCPAddr).Port)
	second, err := c.Listen(t.Context(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	l := accepting(nil, first, second)
	for _, host := range []string{"127.0.0.2", "127.0.0.1", "127.0.0.2"} {
		out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		in, err := l.Accept()
		if err != nil || in.LocalAddr().String() != net.JoinHostPort(host, port) {
			t.Errorf("%s: %v, %v", host, in, err)
		}
		_, _ = out.Close(), in.Close()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil || l.Close() != nil {
		t.Error("accepts after its end")
	}
}

// TestListenWhileAnotherLeads: callers are cut off before this process leads, and answered then.
func TestListenWhileAnotherLeads(t *testing.T) {
	leads := make(chan struct{})
	l, err := On(t.Context(), "127.0.0.1:0", true, leads)
	if err != nil {
		t.Fatal(err)
	}
	call := func() net.Conn {
		t.Helper()
		out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for range 3 {
		out := call()
		if text, err := io.ReadAll(out); len(text) > 0 {
			t.Errorf("%q, %v", text, err)
		}
		_ = out.Close()
	}
	close(leads)
	out := call()
	in, err := l.Accept()
	if err != nil || in.RemoteAddr().String() != out.LocalAddr().String() {
		t.Errorf("%v, %v", in, err)
	}
	_, _, _ = out.Close(), in.Close(), l.Close()
}
