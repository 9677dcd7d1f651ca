//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
)

// proof is a run.
type proof struct {
	config aws.Config
	// eksnode is the path of the command. folder keeps the state, the disk and the report.
	eksnode, folder string
	pause           time.Duration
	out, log        io.Writer
	state           state
	calls           []call
	step            string
	shapes          shapes
}

// state is what a later run goes on with.
type state struct {
	Begun time.Time         `json:"begun"`
	Vars  map[string]string `json:"variables"`
	Rows  []row             `json:"steps"`
}

func (p *proof) path(name string) string { return filepath.Join(p.folder, name) }

func (p *proof) save() error {
	text, err := json.MarshalIndent(p.state, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.path("state.json.new"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(p.path("state.json.new"), p.path("state.json"))
}

// load reads the state of an interrupted run, if there is one. The run keeps what its scripts
// made, and takes its options from this call.
func (p *proof) load() error {
	text, err := os.ReadFile(p.path("state.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	former, now := state{}, p.state.Vars
	if err := json.Unmarshal(text, &former); err != nil {
		return fmt.Errorf("reading the interrupted run: %w", err)
	}
	for _, name := range []string{"account", "region", "other", "family", "cluster"} {
		own := name == "cluster" && now[name] == "" && former.Vars[name] == "eksnode-proof-"+former.Vars["run"]
		if former.Vars[name] != now[name] && !own {
			return fmt.Errorf("the interrupted run of %s has the %s %q, not %q: run `make aws-clean` there first",
				p.folder, name, former.Vars[name], now[name])
		}
	}
	maps.DeleteFunc(now, func(name, value string) bool {
		return slices.Contains([]string{"run", "mine", "cluster"}, name) || name == "disk" && value == ""
	})
	maps.Copy(former.Vars, now)
	p.state = former
	return nil
}

// shell runs a script after the prelude. It keeps the variables of a script that gets no
// further ones, as those of steps. The AWS CLI's commands run in this process with the SDK:
// they end when this process is killed.
func (p *proof) shell(ctx context.Context, script string, more map[string]string) (string, error) {
	vars := maps.Clone(p.state.Vars)
	maps.Copy(vars, more)
	environment := os.Environ()
	for name, value := range vars {
		environment = append(environment, name+"="+value)
	}
	var out, said bytes.Buffer
	runner, err := interp.New(
		interp.Env(expand.ListEnviron(environment...)), interp.Dir(p.folder),
		interp.StdIO(nil, io.MultiWriter(&out, p.log), io.MultiWriter(&said, p.log)),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return p.execute }),
	)
	if err != nil {
		return "", err
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(prelude+script), "script")
	if err != nil {
		return "", err
	}
	err = runner.Run(ctx, file)
	var code interp.ExitStatus
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.As(err, &code):
		return "", fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(said.String()+"\n"+last(out.String())))
	case err != nil:
		return "", err
	}
	for name, v := range runner.Vars {
		if _, outer := os.LookupEnv(name); v.Kind == expand.String && more == nil && !outer && name == strings.ToLower(name) {
			p.state.Vars[name] = v.String() // never a secret of the environment
		}
	}
	return out.String(), nil
}

// last returns the end of an output that explains a failure, such as all checks of preflight.
func last(text string) string {
	return text[max(0, len(text)-8000):]
}

// execute runs a command of a script. A program ends with this process, so that nothing is
// created after a kill.
func (p *proof) execute(ctx context.Context, args []string) error {
	h := interp.HandlerCtx(ctx)
	if args[0] == "aws" {
		config := p.config.Copy()
		config.Region = h.Env.Get("AWS_REGION").String()
		session := cli.Session{Config: config, Pause: p.pause, Called: p.called}
		if err := session.Run(ctx, args[1:], h.Stdout); err != nil {
			fmt.Fprintf(h.Stderr, "%s: %v\n", strings.Join(args[:min(3, len(args))], " "), err)
			return interp.ExitStatus(255)
		}
		return nil
	}
	if args[0] == "sh" && len(args) == 2 { // a script that eksnode printed
		text, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		if _, err := p.shell(ctx, string(text), nil); err != nil {
			fmt.Fprintf(h.Stderr, "%s: %v\n", args[1], err)
			return interp.ExitStatus(1)
		}
		return nil
	}
	name := args[0]
	if name == "eksnode" {
		name = p.eksnode
		p.calls = append(p.calls, call{Command: strings.Join(args[:min(3, len(args))], " ")})
	}
	cmd := exec.CommandContext(ctx, name, args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = h.Dir, h.Stdin, h.Stdout, h.Stderr
	h.Env.Each(func(name string, v expand.Variable) bool {
		if v.Exported && v.Kind == expand.String {
			cmd.Env = append(cmd.Env, name+"="+v.String())
		}
		return true
	})
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return interp.ExitStatus(uint8(max(1, ended.ExitCode())))
	}
	return err
}

func (p *proof) called(action, request string, answer any) {
	p.calls = append(p.calls, call{Command: action, Request: request, Failed: answer == nil})
	if answer != nil && p.step != "" {
		p.shapes.add(p.step, action, answer)
	}
}

// chosen returns the steps with names, and those that they need. Without names, it
// returns all. A cluster that exists replaces the steps that make one. Steps whose variable
// is empty are left out. For an IPv6 cluster, steps say what they do for it.
func chosen(names []string, vars map[string]string) ([]step, error) {
	wanted := map[string]bool{}
	var want func(name string) error
	want = func(name string) error {
		i := slices.IndexFunc(steps, func(s step) bool { return s.Name == name })
		if i < 0 {
			return fmt.Errorf("-only: there is no step %q", name)
		}
		if asks := steps[i].Asks; asks != "" && vars[asks] == "" {
			return fmt.Errorf("-only: the step %s needs %s=", name, strings.ToUpper(asks))
		}
		wanted[name] = true
		for _, needed := range steps[i].Needs {
			if err := want(needed); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range names {
		if err := want(name); err != nil {
			return nil, err
		}
	}
	list := slices.Clone(steps)
	for i := range list {
		if s := &list[i]; s.IPv6 != "" && vars["family"] == "ipv6" {
			s.Does += "; " + s.IPv6
			s.Actions = slices.Concat(s.Actions, s.IPv6Actions)
		}
	}
	return slices.DeleteFunc(list, func(s step) bool {
		made := s.Name == "network" || s.Name == "cluster"
		return len(names) > 0 && !wanted[s.Name] || vars["cluster"] != "" && made || s.Asks != "" && vars[s.Asks] == ""
	}), nil
}

// teardownMinutes is the estimate for the teardown.
const teardownMinutes = 15

// estimate returns the minutes and the US dollars of steps.
func estimate(all []step) (minutes int, dollars float64) {
	minutes = teardownMinutes
	for _, s := range slices.Backward(all) {
		minutes += s.Minutes
		dollars += s.Once + s.Hourly*float64(minutes)/60
	}
	return minutes, dollars
}

// spent estimates the US dollars that the steps so far have cost at a time.
func (p *proof) spent(at time.Time) (dollars float64) {
	for _, r := range p.state.Rows {
		if i := slices.IndexFunc(steps, func(s step) bool { return s.Name == r.Step }); i >= 0 {
			dollars += steps[i].Once + steps[i].Hourly*at.Sub(r.Begun).Hours()
		}
	}
	return dollars
}

var errBudget = errors.New("stopping: the cost passes the estimate")

// run runs the steps that are not done. After a failure no further step runs.
func (p *proof) run(ctx context.Context, all []step) error {
	_, budget := estimate(all)
	for _, s := range all {
		i := slices.IndexFunc(p.state.Rows, func(r row) bool { return r.Step == s.Name })
		if i >= 0 && p.state.Rows[i].Result == ok {
			continue
		}
		if i >= 0 { // an interrupted run has begun the step
			p.state.Rows = slices.Delete(p.state.Rows, i, i+1)
		}
		if p.spent(time.Now()) > budget {
			return errBudget
		}
		fmt.Fprintf(p.out, "%-10s %s\n", s.Name, s.Does)
		r := row{Step: s.Name, Does: s.Does, Begun: time.Now().UTC(), Result: failed, Calls: []call{}}
		p.state.Rows = append(p.state.Rows, r)
		at := &p.state.Rows[len(p.state.Rows)-1]
		if err := p.save(); err != nil {
			return err
		}
		delete(p.state.Vars, "evidence")
		before := maps.Clone(p.state.Vars)
		p.calls, p.step = []call{}, s.Name
		limit := time.Duration(3*s.Minutes) * time.Minute
		bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the step took longer than %s", limit))
		_, err := p.shell(bounded, s.Script, nil)
		cancel()
		p.step = ""
		left := p.teardown(context.WithoutCancel(ctx), func(k kind) bool { return k.Brief })
		at.Seconds, at.Calls = time.Since(at.Begun).Seconds(), p.calls
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("not deleted: %s", strings.Join(left, ", "))
		}
		if err != nil {
			at.Error, at.ByHand = err.Error(), byHand(before, s.Script)
			return errors.Join(fmt.Errorf("the step %s: %w", s.Name, err), p.save())
		}
		if at.Differences, err = p.shapes.differences(s.Name, p.state.Vars["family"]); err != nil {
			return err
		}
		at.Result, at.Evidence = ok, strings.TrimSpace(p.state.Vars["evidence"])
		if err := p.save(); err != nil {
			return err
		}
	}
	return nil
}

// teardownRounds is how often the teardown goes through all kinds: what one kind holds
// can keep another from being deleted.
const teardownRounds = 6

// teardown deletes what runs left, and returns what it could not delete or list.
func (p *proof) teardown(ctx context.Context, which func(kind) bool) (left []string) {
	for round := range teardownRounds {
		if round > 0 {
			time.Sleep(p.pause)
		}
		left = nil
		for _, k := range kinds {
			if !which(k) {
				continue
			}
			regions := []string{p.state.Vars["region"]}
			if other := p.state.Vars["other"]; k.Twice && other != regions[0] {
				regions = append(regions, other)
			}
			for _, region := range regions {
				left = append(left, p.remove(ctx, k, region)...)
			}
		}
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// remove deletes the resources of a kind in a region, and returns those that stay.
func (p *proof) remove(ctx context.Context, k kind, region string) (left []string) {
	found, err := p.shell(ctx, k.List, map[string]string{"region": region})
	if err != nil {
		return []string{fmt.Sprintf("%s in %s: listing: %v", k.Name, region, err)}
	}
	for id := range strings.FieldsSeq(found) {
		if id == "None" {
			continue
		}
		if _, err := p.shell(ctx, k.Delete, map[string]string{"region": region, "id": id}); err != nil {
			left = append(left, fmt.Sprintf("%s %s in %s: %v", k.Name, id, region, err))
		}
	}
	return left
}

// byHand is the script with its variables, for a shell with the AWS CLI.
func byHand(vars map[string]string, script string) string {
	var out strings.Builder
	out.WriteString("account=$(aws sts get-caller-identity --query Account --output text)\n")
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		// A report names no account.
		if quoted, err := syntax.Quote(vars[name], syntax.LangPOSIX); err == nil && name != "account" {
			fmt.Fprintf(&out, "%s=%s\n", name, quoted)
		}
	}
	return out.String() + prelude + script
}
