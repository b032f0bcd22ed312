package controller

import (
	"net"
	"strconv"
	"testing"
)

// TestListenForHosts: a server for other machines is reached at localhost, too, by kube-apiserver.
func TestListenForHosts(t *testing.T) {
	for address, local := range map[string]bool{"127.0.0.2:0": false, "127.0.0.1:0": true, "0.0.0.0:0": true} {
		l, err := listen(t.Context(), address, local)
		if err != nil {
			t.Fatal(err)
		}
		if _, two := l.(*twoListeners); two {
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
	l := both(first, second)
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
