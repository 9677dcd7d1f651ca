// Command agent stands in for the real agent where a test needs one that
// misbehaves. What it does is asked for by the request's source_url.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func main() {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	check(err)
	var request agent.Request
	check(json.Unmarshal(line, &request))
	behaviour, argument, _ := strings.Cut(strings.TrimPrefix(request.Provision.SourceURL, "https://"), ":")
	act, known := behaviours()[behaviour]
	if !known {
		check(fmt.Errorf("unknown behaviour %q", behaviour))
	}
	act(run{in, request, argument})
}

type run struct {
	in       *bufio.Reader
	request  agent.Request
	argument string
}

func behaviours() map[string]func(run) {
	return map[string]func(run){
		"done":     done,
		"fail":     fail,
		"exit":     exit,
		"mute":     func(r run) { os.Exit(r.number()) },
		"raw":      raw,
		"old":      func(r run) { send(agent.Event{Kind: agent.Hello, Message: "0.0.1"}); r.untilHungUp() },
		"lie":      func(r run) { hello(r); finish(report(plan.OK)); os.Exit(r.number()) },
		"kill":     func(r run) { hello(r); check(syscall.Kill(os.Getpid(), syscall.SIGKILL)) },
		"wait":     wait,
		"murmur":   murmur,
		"deaf":     deaf,
		"beats":    beats,
		"plan":     planned,
		"look":     look,
		"progress": progress,
	}
}

// done works as it should.
func done(r run) {
	fmt.Println("Welcome to the machine")
	hello(r)
	send(agent.Event{Kind: agent.Begin, Item: "packages", Phase: "install", Actions: 1})
	end(plan.Outcome{Item: "packages", Phase: "install", Status: plan.Done, Milliseconds: 1400,
		Actions: []plan.Action{{Verb: plan.Install, Target: "containerd", Reason: "runs containers"}}})
	send(agent.Event{Kind: agent.Begin, Item: "caches", Phase: "clean", Actions: 2})
	removed := plan.Action{Verb: plan.Remove, Target: "/var/cache/apt", Reason: "a package manager's cache",
		Removal: host.Removal{Entries: 12, Bytes: 34_500_000}}
	end(plan.Outcome{Item: "caches", Phase: "clean", Status: plan.Done, Milliseconds: 35,
		Actions:  []plan.Action{removed, removed},
		Findings: []plan.Finding{{Target: "/srv/data", Reason: "unknown"}}})
	end(plan.Outcome{Item: "sysctls", Phase: "clean", Status: plan.Unchanged})
	send(agent.Event{Kind: agent.Warning, Message: "the clock is off"})
	rep := report(plan.OK)
	rep.Totals = plan.Totals{Items: 3, Changed: 2, Actions: 3, Removal: host.Removal{Entries: 24, Bytes: 69_000_000}}
	finish(rep)
}

// fail is an agent that could not do all.
func fail(r run) {
	hello(r)
	o := plan.Outcome{Item: "kubelet", Phase: "install", Status: plan.Failed,
		Error: "kubelet: fetch kubelet: checksum mismatch", Milliseconds: 12}
	end(o)
	rep := report(plan.Failure)
	rep.Applied([]plan.Outcome{o}, errors.New(o.Error))
	finish(rep)
	os.Exit(1)
}

// exit ends after an item with the given status and without an end marker.
func exit(r run) {
	hello(r)
	end(plan.Outcome{Item: "packages", Phase: "install", Status: plan.Done, Milliseconds: 7})
	fmt.Fprintln(os.Stderr, "fatal error: oh no")
	os.Exit(r.number())
}

// raw says one line as it stands after hello.
func raw(r run) {
	hello(r)
	fmt.Println(r.argument)
	r.untilHungUp()
}

// murmur works while another program prints to the same output.
func murmur(r run) {
	fmt.Print("$ ")
	hello(r)
	fmt.Print("tick")
	send(agent.Event{Kind: agent.Warning, Message: "at work"})
	fmt.Print("{\"half\": ")
	finish(report(plan.OK))
	fmt.Print("tock")
}

// wait is at work until it is told to stop.
func wait(r run) {
	hello(r)
	send(agent.Event{Kind: agent.Warning, Message: "pid " + strconv.Itoa(os.Getpid())})
	r.untilHungUp()
	rep := report(plan.Failure)
	rep.Error = "stopped"
	finish(rep)
	os.Exit(1)
}

// deaf goes on although it is told to stop, until the named file is there.
func deaf(r run) {
	hello(r)
	send(agent.Event{Kind: agent.Warning, Message: "pid " + strconv.Itoa(os.Getpid())})
	await(func() bool { _, err := os.Stat(r.argument); return err == nil })
}

// beats ends well after three heartbeats.
func beats(r run) {
	hello(r)
	for range 3 {
		line, err := r.in.ReadString('\n')
		check(err)
		if line != "\n" {
			check(fmt.Errorf("a heartbeat of %q", line))
		}
	}
	finish(report(plan.OK))
}

func planned(r run) {
	if !r.request.DryRun {
		check(fmt.Errorf("not asked for a dry run"))
	}
	hello(r)
	rep := report(plan.DryRun)
	rep.Totals = plan.Totals{Items: 2, Actions: 1}
	rep.Plan = []plan.Planned{{Item: "packages", Phase: "install",
		Actions: []plan.Action{{Verb: plan.Install, Target: "runc", Reason: "runs containers"}}}}
	finish(rep)
}

// look says what it finds around itself.
func look(r run) {
	hello(r)
	mask := syscall.Umask(0)
	cwd, err := os.Getwd()
	check(err)
	_, err = os.Stat(r.request.Folder)
	send(agent.Event{Kind: agent.Warning, Message: fmt.Sprintf("umask %03o, in %s, folder gone: %t, version %s, "+
		"command %s",
		mask, cwd, os.IsNotExist(err), r.request.Version, r.request.Command)})
	finish(report(plan.OK))
}

// progress fetches something big.
func progress(r run) {
	hello(r)
	fetch := &plan.Action{Verb: plan.Fetch, Target: "kubelet"}
	send(agent.Event{Kind: agent.Begin, Item: "kubelet", Phase: "install", Actions: 1})
	for n := range int64(5) {
		send(agent.Event{Kind: agent.Progress, Item: "kubelet", Action: fetch, Done: (n + 1) * 10_000_000,
			Total: 50_000_000})
	}
	fetch.Fetched = 50_000_000
	o := plan.Outcome{Item: "kubelet", Phase: "install", Status: plan.Done, Actions: []plan.Action{*fetch},
		Milliseconds: 60_000}
	end(o)
	rep := report(plan.OK)
	rep.Applied([]plan.Outcome{o}, nil)
	finish(rep)
}

// hello removes the agent from the machine and says that it runs.
func hello(r run) {
	exe, err := os.Executable()
	check(err)
	if filepath.Dir(exe) != r.request.Folder {
		check(fmt.Errorf("started from %s, told to remove %s", exe, r.request.Folder))
	}
	check(os.Remove(exe))
	check(os.Remove(r.request.Folder))
	send(agent.Event{Kind: agent.Hello, Message: version.String()})
}

func end(o plan.Outcome) {
	send(agent.Event{Kind: agent.End, Item: o.Item, Phase: o.Phase, Outcome: &o})
}

func report(result plan.Result) *plan.Report {
	started := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	return &plan.Report{Schema: plan.Schema, Command: "provision", Tool: version.String(), Started: started,
		Finished: started.Add(3 * time.Second), Result: result, Machine: plan.Machine{Root: "/"}}
}

func finish(r *plan.Report) { send(agent.Event{Kind: agent.Finished, Report: r}) }

func send(e agent.Event) {
	line, err := json.Marshal(e)
	check(err)
	_, err = os.Stdout.Write([]byte("\n" + string(line) + "\n"))
	check(err)
}

func (r run) untilHungUp() {
	_, err := io.Copy(io.Discard, r.in)
	check(err)
}

func (r run) number() int {
	n, err := strconv.Atoi(r.argument)
	check(err)
	return n
}

// await polls for something nobody tells about; it gives up after a minute.
func await(is func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		if is() {
			return
		}
		<-tick.C
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "test agent:", err)
		os.Exit(97)
	}
}
