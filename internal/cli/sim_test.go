package cli_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/nephele-io/nephele/internal/cli"
	"github.com/nephele-io/nephele/internal/sim"
)

// simRun is nephele sim running in the background.
type simRun struct {
	cancel context.CancelFunc
	lines  chan string
	done   chan int
	errs   strings.Builder
}

// startSim runs the command; its output arrives line by line.
func startSim(t *testing.T, args ...string) *simRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r := &simRun{cancel: cancel, lines: make(chan string, 1000), done: make(chan int, 1)}
	reader, writer := io.Pipe()
	go func() {
		code := cli.Main(ctx, append([]string{"sim"}, args...), cli.Streams{Out: writer, Err: &r.errs})
		writer.Close()
		r.done <- code
	}()
	go func() {
		defer close(r.lines)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			r.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() { r.stop(t) })
	return r
}

// until collects lines up to the first one that holds the text.
func (r *simRun) until(t *testing.T, text string) []string {
	t.Helper()
	var got []string
	for line := range r.lines {
		got = append(got, line)
		if strings.Contains(line, text) {
			return got
		}
	}
	t.Fatalf("the output ends without %q:\n%s\n%s", text, strings.Join(got, "\n"), r.errs.String())
	return nil
}

func (r *simRun) stop(t *testing.T) int {
	t.Helper()
	r.cancel()
	select {
	case code := <-r.done:
		r.done <- code
		return code
	case <-time.After(20 * time.Second):
		t.Fatal("the command does not stop")
		return -1
	}
}

// printed returns the value of an export that the command prints.
func printed(lines []string, name string) string {
	for _, line := range lines {
		for field := range strings.FieldsSeq(line) {
			if value, ok := strings.CutPrefix(field, name+"="); ok {
				return value
			}
		}
	}
	return ""
}

func simClient(lines []string) *ec2.Client {
	return ec2.New(ec2.Options{
		Region:       printed(lines, "AWS_REGION"),
		BaseEndpoint: aws.String(printed(lines, "AWS_ENDPOINT_URL")),
		HTTPClient:   &http.Client{Transport: sim.Transport(&http.Transport{})},
		Credentials:  credentials.NewStaticCredentialsProvider(printed(lines, "AWS_ACCESS_KEY_ID"), printed(lines, "AWS_SECRET_ACCESS_KEY"), ""),
	})
}

// TestSim does what the command tells its user to do.
func TestSim(t *testing.T) {
	r := startSim(t, "--listen", "127.0.0.1:0")
	lines := r.until(t, "Ctrl-C")
	out, err := simClient(lines).DescribeInstances(context.Background(), &ec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Reservations) == 0 {
		t.Error("the built-in account has no instances")
	}
	// A client that does not know the variable is told each time.
	if want := "--endpoint-url " + printed(lines, "AWS_ENDPOINT_URL") + " ec2"; !strings.Contains(strings.Join(lines, "\n"), want) {
		t.Errorf("%q is not printed", want)
	}
	if code := r.stop(t); code != cli.ExitDone || r.errs.Len() > 0 {
		t.Errorf("exit code %d, standard error %q", code, r.errs.String())
	}
}

// TestSimState stops and starts again: what was done stays.
func TestSimState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	r := startSim(t, "--listen", "127.0.0.1:0", "--state", file)
	client := simClient(r.until(t, "Ctrl-C"))
	vpcs, err := client.DescribeVpcs(context.Background(), &ec2.DescribeVpcsInput{})
	if err != nil {
		t.Fatal(err)
	}
	created, err := client.CreateSecurityGroup(context.Background(), &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("kept"), Description: aws.String("d"), VpcId: vpcs.Vpcs[0].VpcId,
	})
	if err != nil {
		t.Fatal(err)
	}
	if code := r.stop(t); code != cli.ExitDone {
		t.Fatalf("exit code %d: %s", code, r.errs.String())
	}
	r = startSim(t, "--listen", "127.0.0.1:0", "--state", file)
	lines := r.until(t, "Ctrl-C")
	if !strings.Contains(lines[0], file) {
		t.Errorf("the first line does not say where the state comes from: %s", lines[0])
	}
	in := &ec2.DescribeSecurityGroupsInput{GroupIds: []string{aws.ToString(created.GroupId)}}
	if _, err := simClient(lines).DescribeSecurityGroups(context.Background(), in); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestSimBadInput(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte("{\n  \"vpcs\": [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"port in use", []string{"--listen", busy.Addr().String()}, "the address is in use"},
		{"no address", []string{"--listen", "nonsense"}, "nonsense"},
		{"estate missing", []string{"--estate", filepath.Join(dir, "none")}, "no such file"},
		{"estate is no dump", []string{"--estate", broken}, "broken.json: line 3"},
		{"empty folder", []string{"--estate", t.TempDir()}, "no description of an account"},
		{"state is no state", []string{"--state", broken}, "broken.json"},
		{"state cannot be written", []string{"--listen", "127.0.0.1:0", "--state", filepath.Join(dir, "none", "s.json")}, "none"},
		{"negative delay", []string{"--visibility-delay", "-1s"}, "--visibility-delay is -1s"},
		{"effect delay", []string{"--effect-delay", "2h"}, "the effect delay is 2h0m0s, expected 0 to 1h0m0s"},
		{"speed", []string{"--throttle-speed", "0"}, "--throttle-speed is 0"},
		{"unknown flag", []string{"--nonsense"}, "unknown flag"},
		{"argument", []string{"x"}, "x"},
	} {
		var out, errs strings.Builder
		code := cli.Main(context.Background(), append([]string{"sim"}, c.args...), cli.Streams{Out: &out, Err: &errs})
		if code != cli.ExitBadInput || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit code %d, %q; want %q", c.name, code, errs.String(), c.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: prints %q", c.name, out.String())
		}
	}
}
