package kernel_test

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// victimEnv tells a process of this test that it is the one to be killed, and its network
// namespace.
const victimEnv = "NEPHELE_TEST_VICTIM"

// TestVictim changes the table for ever, in a process of its own.
func TestVictim(t *testing.T) {
	path := os.Getenv(victimEnv)
	if path == "" {
		return // TestKilledInTheMiddle runs it
	}
	ns, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	table, err := kernel.Open(kernel.DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	list := programs(300, 2)
	for i := 0; ; i++ {
		if _, err := table.Apply(list[i%2]); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			_, _ = os.Stdout.WriteString("ready\n")
		}
	}
}

// TestKilledInTheMiddle kills a process that changes policies, at any moment. What it leaves is one
// of the two programs as a whole, still in force, and the next process goes on from there.
func TestKilledInTheMiddle(t *testing.T) {
	host := nfttest.NewHost(t)
	list := programs(300, 2)
	random := rand.New(rand.NewPCG(1, 1))
	left := [2]int{}
	for range 25 {
		victim := exec.Command(os.Args[0], "-test.run=^TestVictim$")
		victim.Env = append(os.Environ(), victimEnv+"="+host.Path())
		out, err := victim.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("the victim does not work: %q, %v", line, err)
		}
		<-time.After(time.Duration(random.IntN(5000)) * time.Microsecond)
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = victim.Wait()
		next := open(t, host)
		wrong := [2]int{}
		for i, p := range list {
			w, err := next.Verify(p)
			if err != nil {
				t.Fatal(err)
			}
			wrong[i] = len(w)
		}
		switch {
		case wrong[0] == 0:
			left[0]++
		case wrong[1] == 0:
			left[1]++
		default:
			t.Fatalf("the table is neither of both: %v differences", wrong)
		}
		if _, err := next.Apply(list[random.IntN(2)]); err != nil {
			t.Fatal(err)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("left %v", left)
	if left[0] == 0 || left[1] == 0 {
		t.Error("the kill never came at another moment")
	}
}

// TestForeignFlush flushes all rules of the host as others do: with the agent running nothing
// happens, without it the next Apply repairs.
func TestForeignFlush(t *testing.T) {
	host := nfttest.NewHost(t)
	table := open(t, host)
	p := programs(400, 1)[0]
	if _, err := table.Apply(p); err != nil {
		t.Fatal(err)
	}
	flush := func() error {
		return host.Do(func() error {
			c, err := nftables.New()
			if err != nil {
				return err
			}
			c.FlushRuleset()
			return c.Flush()
		})
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	verify(t, table, p)
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	next := open(t, host)
	if wrong, err := next.Verify(p); err != nil || len(wrong) != 1 {
		t.Fatalf("the flush has left %q, %v", wrong, err)
	}
	if _, err := next.Apply(p); err != nil {
		t.Fatal(err)
	}
	verify(t, next, p)
}

// TestForeignTable meets a table of our name that somebody else has made, with other things in it.
func TestForeignTable(t *testing.T) {
	host := nfttest.NewHost(t)
	err := host.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := c.AddTable(&nftables.Table{Name: kernel.DefaultTable, Family: nftables.TableFamilyINet})
		c.AddChain(&nftables.Chain{Name: "ingress", Table: table})
		if err := c.AddSet(&nftables.Set{Name: "members4", Table: table, KeyType: nftables.TypeIPAddr}, nil); err != nil {
			return err
		}
		return c.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	table := open(t, host)
	p := programs(500, 1)[0]
	w, err := table.Apply(p)
	if err != nil || !w.Whole {
		t.Fatal(w, err)
	}
	verify(t, table, p)
}
