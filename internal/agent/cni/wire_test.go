package cni

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answering listens on a socket, and answers each connection with the text once something came.
func answering(t *testing.T, text string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4<<10))
			_, _ = io.WriteString(c, text) // the plugin may have heard enough
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return socket
}

// TestAnswersOfTheAgent asks agents that answer as HTTP allows, and some that do not.
func TestAnswersOfTheAgent(t *testing.T) {
	t.Parallel()
	const mtu = `{"mtu":1450}`
	for name, c := range map[string]struct {
		answer string
		// away: the plugin takes the agent for one that is away. refused: it takes the answer for a
		// refusal; later: for one that may change.
		away, refused, later bool
		text                 string
	}{
		"with a length":        {answer: "HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n" + mtu},
		"more than its length": {answer: "HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n" + mtu + "and more"},
		"without a length":     {answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + mtu},
		"without a reason":     {answer: "HTTP/1.1 200\r\n\r\n" + mtu},
		"refused":              {answer: "HTTP/1.0 400 Bad Request\r\n\r\nno such Pod\n", refused: true, text: "no such Pod"},
		"later":                {answer: "HTTP/1.0 503 Service Unavailable\r\n\r\nnot yet", refused: true, later: true, text: "not yet"},
		"not JSON":             {answer: "HTTP/1.0 200 OK\r\n\r\nyes", refused: true, text: "does not understand"},
		"a body without end":   {answer: "HTTP/1.0 200 OK\r\n\r\n" + strings.Repeat("x", 1<<20), refused: true, text: "does not understand"},
		"nothing":              {away: true, text: "EOF"},
		"ended in the line":    {answer: "HTTP/1.0 20", away: true, text: "status line"},
		"ended in the header":  {answer: "HTTP/1.0 200 OK\r\nContent-Le", away: true, text: "header"},
		"ended in the body":    {answer: "HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n" + mtu, away: true, text: "12 of 100 bytes"},
		"a length of letters":  {answer: "HTTP/1.0 200 OK\r\nContent-Length: many\r\n\r\n" + mtu, away: true, text: "many"},
		"a length below zero":  {answer: "HTTP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n" + mtu, away: true, text: "-1"},
		"four digits":          {answer: "HTTP/1.0 2000 OK\r\n\r\n" + mtu, away: true, text: "status line"},
		"another version":      {answer: "HTTP/2 200 OK\r\n\r\n" + mtu, away: true, text: "status line"},
		"not HTTP":             {answer: "SSH-2.0-OpenSSH\r\n\r\n", away: true, text: "SSH-2.0"},
		"a header without end": {answer: "HTTP/1.0 200 OK\r\nX: " + strings.Repeat("x", 1<<20), away: true, text: "header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got Assigned
			err := ask(t.Context(), answering(t, c.answer), PathAssign, Attachment{}, &got, time.Minute)
			var away awayError
			var refused refusedError
			if errors.As(err, &away) != c.away || errors.As(err, &refused) != c.refused || refused.later != c.later {
				t.Fatalf("%#v", err)
			}
			if err == nil && got.MTU != 1450 {
				t.Errorf("%+v", got)
			}
			if err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q: want %q in it", err, c.text)
			}
		})
	}
}

// TestAgentThatDoesNotAnswer: the plugin waits up to its limit, and no longer than its context.
func TestAgentThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.CancelFunc){
		"limit":     func(context.CancelFunc) {},
		"cancelled": func(cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer func() { _ = there.Close() }()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				ended := make(chan error)
				go func() {
					_, _, err := bounded(ctx, here, PathAdd, nil)
					ended <- err
				}()
				_, _ = there.Read(make([]byte, 4<<10))
				end(cancel)
				if err := <-ended; !errors.Is(err, ctx.Err()) || err == nil {
					t.Errorf("%v, want %v", err, ctx.Err())
				}
			})
		})
	}
}
