// Package remote runs the agent on the builder machine. It finds out what the
// machine is, sends the agent with one request, prints the agent's events and keeps
// the report. One remote command is the probe, one runs the agent, and a third
// removes the agent's folder where the second could not.
package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"time"

	"github.com/hashicorp/packer-plugin-sdk/common"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/plugin/embedded"
)

// Limits are how long a session waits. Packer's own time-out is for a whole
// provisioner and leaves no time for retries (RetriedProvisioner of
// packer-plugin-sdk), so each step has a limit of its own.
type Limits struct {
	Probe     time.Duration // for the machine to say what it is
	Heartbeat time.Duration // between two signs of life to the agent
	Arrival   time.Duration // without a byte taken on the agent's way to its first event
	Silence   time.Duration // without an event; the agent sends one every Heartbeat
	Ending    time.Duration // for the agent to end after it has finished or has to stop
	Cleaning  time.Duration // for the clean-up of what a lost session left
}

// Session is one run of the agent on a machine.
type Session struct {
	Config Config
	// Build is Packer's name of the build, for the report.
	Build string
	// Kept is the provisioner's report file, if Config names one.
	Kept *Kept
	UI   packersdk.Ui
	Comm packersdk.Communicator
	// Agent gives the compressed agent for an architecture in Go's spelling.
	Agent func(arch string) ([]byte, error)
	// Supply has the files that machines of an architecture may want; nil for
	// provisioners whose agent wants none.
	Supply func(arch string) (asset.Supply, error)
	// Verbose prints every item and action; without it only changes are printed.
	Verbose bool
	Version string // of the plugin, and so of the agent
	Limits  Limits
	Now     func() time.Time
	Random  io.Reader // for the name of the session and of the agent's folder
}

// New returns a session of a build with the agents that the plugin carries.
func New(c Config, build common.PackerConfig, kept *Kept, ui packersdk.Ui, comm packersdk.Communicator) *Session {
	return &Session{
		Config: c, Build: build.PackerBuildName, Kept: kept, UI: ui, Comm: comm,
		Verbose: c.Verbose || build.PackerDebug || isLogging(os.Getenv("PACKER_LOG")),
		Agent:   embedded.Agent,
		Version: version.String(),
		Limits: Limits{
			Probe:     2 * time.Minute, // an emulated machine takes seconds for a command
			Arrival:   2 * time.Minute,
			Heartbeat: agent.HeartbeatSeconds * time.Second,
			Silence:   agent.SilenceSeconds * time.Second,
			Ending:    30 * time.Second, // host.Run's commands get 5 seconds, several may follow
			Cleaning:  30 * time.Second,
		},
		Now:    time.Now,
		Random: rand.Reader,
	}
}

// isLogging reports whether a value of PACKER_LOG turns Packer's log on.
func isLogging(value string) bool { return value != "" && value != "0" }

// Run runs the agent with a request, and fills in the request's Version, DryRun and
// Folder. Its error says what the agent could not do, or why the agent did not run.
// Run writes the report in any case; until the end, the report's result is
// unfinished.
func (s *Session) Run(ctx context.Context, request agent.Request) error {
	request.Version, request.DryRun = s.Version, s.Config.DryRun
	s.UI = &screen{Ui: s.UI}
	started := s.Now()
	begun := plan.Begun(string(request.Command), s.Version, "/", started)
	begun.Build = s.Build
	if s.Config.Report != "" {
		if err := s.Kept.begin(s.Config.Report, begun); err != nil {
			return shown(err)
		}
	}
	m, h, err := s.run(ctx, request)
	if s.Kept.runs++; err != nil && (ctx.Err() != nil || s.Kept.runs > 1) {
		s.UI.Error(shown(err).Error()) // Packer prints only the first attempt's error, and none after a time-out
	}
	if s.Config.Report == "" {
		return shown(err)
	}
	return shown(errors.Join(err, s.Kept.write(s.report(begun, m, h, err))))
}

// report is the agent's own report, or one made of the outcomes that were received.
func (s *Session) report(begun plan.Report, m *machine, h heard, err error) plan.Report {
	if h.report != nil {
		r := *h.report
		r.Build = s.Build
		if err != nil && r.Result.ExitCode() == 0 {
			r.Result, r.Error = plan.Failure, err.Error()
		}
		return r
	}
	r := begun
	r.Finished, r.Error = s.Now(), ""
	if m != nil {
		r.Machine.Distro, r.Machine.Version, r.Machine.Arch = m.osRelease["ID"], m.osRelease["VERSION_ID"], m.arch
	}
	r.Applied(h.outcomes, err)
	return r
}

func (s *Session) run(ctx context.Context, request agent.Request) (*machine, heard, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, heard{}, fmt.Errorf("stopping before anything was done: %w (after a time-out, Packer hands every "+
			"retry the same ended context: leave out max_retries or timeout)", err)
	}
	// All fields are known now, and both are parts of a shell command.
	if err := errors.Join(s.Config.checkRemoteFolder(), s.Config.checkSudoCommand()); err != nil {
		return nil, heard{}, err
	}
	probing, cancel := context.WithTimeoutCause(ctx, s.Limits.Probe,
		fmt.Errorf("no answer within %s", show.Length(s.Limits.Probe)))
	defer cancel()
	random := make([]byte, 8)
	if _, err := io.ReadFull(s.Random, random); err != nil {
		return nil, heard{}, fmt.Errorf("naming the session: %w", err)
	}
	name := hex.EncodeToString(random)
	m, err := probe(probing, s.Comm, s.Config, name)
	if err != nil {
		return nil, heard{}, fmt.Errorf("looking at the machine: %w", err)
	}
	s.UI.Say(fmt.Sprintf("Machine: %s on %s, reached as %s", m.name(), m.arch, m.facts["user"]))
	program, err := s.Agent(m.arch)
	if err != nil {
		return m, heard{}, fmt.Errorf("choosing the agent: %w", err)
	}
	h, err := s.work(ctx, m, name, program, request)
	return m, h, err
}

// work runs the agent in a folder with the random name of the session. mkdir
// refuses a folder that exists.
func (s *Session) work(ctx context.Context, m *machine, name string, program []byte,
	request agent.Request) (heard, error) {
	request.Folder = path.Join(m.facts["folder"], agent.FolderPrefix+name)
	line, err := json.Marshal(request)
	if err != nil {
		return heard{}, fmt.Errorf("writing the agent's request: %w", err)
	}
	line = append(line, '\n')
	feed := newFeed(io.MultiReader(bytes.NewReader(program), bytes.NewReader(line)), s.Limits.Heartbeat)
	defer feed.hangUp()

	console := console.New(s.UI, console.Options{Command: string(request.Command), Verbose: s.Verbose, Details: true,
		Now: s.Now})
	supplies, err := s.supplier(m.arch, feed, console)
	if err != nil {
		return heard{}, err
	}
	supplying, stop := context.WithCancel(ctx)
	defer stop()
	talk := &conversation{console: console, name: name, version: s.Version, private: s.Config.private,
		hangUp: feed.hangUp}
	sending := fmt.Sprintf("Sending the agent %s for linux/%s, %s", s.Version, m.arch, show.Size(int64(len(program))))
	talk.begin = sync.OnceFunc(func() {
		console.Print("%s", sending)
		feed.begin()
	})
	talk.skip = func() { // before begin
		feed.head, sending = bytes.NewReader(line), "The machine still has the agent "+s.Version
		feed.taken.Add(int64(len(program)))
	}
	talk.want = func(w asset.Wanted) { go supplies.answer(supplying, w, talk.answered) }
	var said text
	sudo := s.Config.SudoCommand
	if m.facts["uid"] == "0" {
		sudo = ""
	}
	keptSum := ""
	if m.facts["kept"] != "" {
		if keptSum, err = unpackedSum(program); err != nil {
			return heard{}, err
		}
	}
	out, asides := &lines{most: agent.LineMost, each: talk.line}, &lines{most: asideMost, each: talk.aside}
	over := start(ctx, s.Comm, agentCommand(name, request.Folder, len(program), keptSum, sudo), feed, out,
		io.MultiWriter(&said, asides))
	arrival := arrival{now: s.Now, limit: s.Limits.Arrival, total: int64(len(program) + len(line))}
	end, ended := s.await(ctx, over, feed, func() error {
		console.Tick()
		if silence := talk.silence(); silence > s.Limits.Silence {
			return fmt.Errorf("%w: it has said nothing for %s and is gone, or nothing reaches it any more; what the "+
				"agent had done is finished by the next run", errLost, show.Length(s.Limits.Silence))
		}
		return arrival.stuck(feed.taken.Load(), talk.soFar(), console)
	})
	if ended { // nothing writes to them now
		out.Flush()
		asides.Flush()
	}
	h := talk.soFar()

	words := lastWords(s.Config.private(said.String()))
	if !h.begun {
		words = lastWords(h.before)
	}
	err = brief(s.judge(ctx, m, h, end, ended, words), h, words)
	// An agent with an outcome has removed its folder. A machine that fell silent
	// before it made the folder or after the agent's first word runs no more commands.
	gone := end.silent != nil && (h.hello || !h.begun)
	if (!ended && !gone || end.lost()) && len(h.outcomes) == 0 {
		err = errors.Join(err, s.clean(ctx, request.Folder))
	}
	return h, err
}

// unpackedSum is the SHA-256 of a compressed agent's program.
func unpackedSum(packed []byte) (string, error) {
	program, err := gzip.NewReader(bytes.NewReader(packed))
	sum := sha256.New()
	if err == nil {
		_, err = io.Copy(sum, program)
	}
	if err != nil {
		return "", fmt.Errorf("unpacking the agent: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// arrival watches the agent on its way to the machine until its first event.
type arrival struct {
	now   func() time.Time
	limit time.Duration
	total int64 // bytes to send
	done  int64 // bytes taken, and one for the begin mark
	since time.Time
}

// stuck prints how far the agent is, and fails when nothing has moved for the limit.
func (a *arrival) stuck(taken int64, h heard, c *console.Console) error {
	done := taken
	if h.begun {
		done++
	}
	now := a.now()
	switch {
	case h.hello:
		return nil
	case a.since.IsZero() || done != a.done:
		a.done, a.since = done, now
		if taken > 0 {
			c.Progress("agent", plan.Action{Verb: "send", Target: "eksnode"}, min(taken, a.total), a.total)
		}
		return nil
	case now.Sub(a.since) <= a.limit:
		return nil
	case !h.begun:
		return fmt.Errorf("no progress for %s: %s", show.Length(a.limit), notBegun(h.before))
	case taken < a.total:
		return fmt.Errorf("no progress for %s: the machine has taken %s of the agent's %s and no more: the line to "+
			"the machine has stopped", show.Length(a.limit), show.Size(taken), show.Size(a.total))
	}
	return fmt.Errorf("no progress for %s: the agent was sent and has not started: the line to the machine has "+
		"stopped, or the sudo command waits for input", show.Length(a.limit))
}

func (s *Session) supplier(arch string, f *feed, c *console.Console) (supplier, error) {
	supplies := supplier{feed: f, console: c}
	if s.Supply == nil {
		return supplies, nil
	}
	var err error
	supplies.supply, err = s.Supply(arch)
	return supplies, err
}

// await waits for the session to end. The standard input is hung up when the agent
// has finished or has to stop; from then on the session has Limits.Ending, and ended
// is false when that is not enough. await calls beat every Heartbeat, and stops when
// beat returns why nothing more is expected.
func (s *Session) await(ctx context.Context, over <-chan ending, feed *feed,
	beat func() error) (end ending, ended bool) {
	tick := time.NewTicker(s.Limits.Heartbeat)
	defer tick.Stop()
	stopped, hung := ctx.Done(), feed.hung
	var late <-chan time.Time
	for {
		select {
		case end := <-over:
			return end, true
		case <-tick.C:
			if err := beat(); err != nil {
				return ending{silent: err}, false
			}
		case <-stopped:
			stopped = nil
			feed.hangUp()
		case <-hung:
			hung = nil
			late = time.After(s.Limits.Ending)
		case <-late:
			return ending{}, false
		}
	}
}

func (s *Session) judge(ctx context.Context, m *machine, h heard, end ending, ended bool, said string) error {
	switch {
	case ctx.Err() != nil:
		return interrupted(context.Cause(ctx), h, end, ended)
	case end.silent != nil:
		return end.silent
	case !ended && h.err != nil:
		return h.err
	case !ended:
		return fmt.Errorf("%w within %s", errDeaf, show.Length(s.Limits.Ending))
	}
	return s.verdict(m, h, end, said)
}

// clean removes the agent's folder after a session that may have left the folder. It
// works also when ctx has ended.
func (s *Session) clean(ctx context.Context, folder string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Limits.Cleaning)
	defer cancel()
	_, said, end, err := output(ctx, s.Comm, cleanCommand(folder))
	switch {
	case err == nil && end.lost():
		err = errLost
	case err == nil && end.status != 0:
		err = fmt.Errorf("%s%s", end, after(lastWords(s.Config.private(said))))
	}
	if err != nil {
		return fmt.Errorf("removing %s from the machine, where it may remain: %w", folder, err)
	}
	return nil
}
