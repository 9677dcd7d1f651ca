package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// joining holds the flags of every command that reads a NodeConfig.
type joining struct {
	sources []string
	// cache is the path of the cache file; empty means no cache.
	cache string
}

func (j *joining) flags(cmd *cobra.Command) {
	cmd.PersistentFlags().StringSliceVarP(&j.sources, "config-source", "c", []string{nodeconfig.UserDataSource}, "")
}

func load(ctx context.Context, h *host.Host, sources []string, userData func(context.Context) ([]byte, error),
	log func(string)) (*nodeconfig.NodeConfig, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the folder of relative sources: %w", err)
	}
	r := nodeconfig.Reader{Files: h.Files, Folder: folder, UserData: userData}
	c, warnings, err := r.Load(ctx, sources)
	for _, w := range warnings {
		log("warning: " + w)
	}
	return c, err
}

func services(service *firstboot.Metadata, log func(string)) (bootstrap.Services, error) {
	command, err := os.Executable()
	if err != nil {
		return bootstrap.Services{}, fmt.Errorf("finding the path of eksnode: %w", err)
	}
	return bootstrap.Services{
		IMDS: service, AWS: awsFor(service, log), Lookup: net.DefaultResolver.LookupHost, Command: command, Log: log,
	}, nil
}

// logTo returns a function that writes lines for the journal. The journal adds the
// time.
func logTo(w io.Writer) func(string) {
	return func(line string) { fmt.Fprintln(w, line) }
}

// gcPercent lets the heap grow to 24 MiB before the first collection.
const gcPercent = 500

type initFlags struct {
	joining
	skip    []string
	daemons []string
	boot    bool
	dryRun  bool
}

func (i *initFlags) flags(cmd *cobra.Command) {
	bind(cmd, targets{
		"skip,s": &i.skip, "daemon,d": &i.daemons, "config-cache": &i.cache, "dry-run": &i.dryRun, "boot": &i.boot,
	})
}

func (i *initFlags) selection() bootstrap.Selection {
	s := bootstrap.Selection{Daemons: i.daemons}
	for _, p := range i.skip {
		s.Skip = append(s.Skip, bootstrap.Phase(p))
	}
	return s
}

func (i *initFlags) run(cmd *cobra.Command, _ []string) error {
	// The program ends before the memory matters, and collecting takes a tenth of its
	// time.
	debug.SetGCPercent(gcPercent)
	pick := i.selection()
	if cmd.Flags().Changed("daemon") && len(pick.Daemons) == 0 {
		pick.Daemons = []string{""} // as Amazon's nodeadm reads --daemon=""
	}
	if err := pick.Check(); err != nil {
		return err
	}
	for _, source := range i.sources {
		if err := nodeconfig.CheckSource(source); err != nil {
			return fmt.Errorf("--config-source: %q is no source: %w", source, err)
		}
	}
	if st, err := os.Stat(i.cache); i.cache != "" && err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("--config-cache: %s is not a regular file", i.cache) // init replaces the file
	}
	return onNode(cmd, func(h *host.Host, service *firstboot.Metadata, log func(string)) error {
		s, err := services(service, log)
		if err != nil {
			return err
		}
		if i.boot {
			if join, err := i.mayJoin(cmd.Context(), h, service, log); err != nil || !join {
				return err
			}
		}
		c, cached, err := i.resolve(cmd.Context(), h, service, log)
		if i.boot && errors.Is(err, nodeconfig.ErrNone) {
			log("nothing to do: " + err.Error())
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the NodeConfig: %w", err)
		}
		if err := i.inStep(&pick, c, cached, log); err != nil {
			return err
		}
		if i.dryRun {
			i.cache = ""
		}
		n, err := s.FromNodeConfig(cmd.Context(), h, c, i.cache)
		if err != nil {
			return err
		}
		if i.dryRun {
			return showPlan(cmd, h, s, n, pick)
		}
		return join(cmd.Context(), h, s, n, pick)
	})
}

// resolve reads the NodeConfig from its sources, or from the cache if the sources no
// longer have a NodeConfig.
func (j *joining) resolve(ctx context.Context, h *host.Host, service *firstboot.Metadata, log func(string)) (
	c, cached *nodeconfig.NodeConfig, err error) {
	cached = j.cached(h, log)
	c, err = load(ctx, h, j.sources, service.UserData, log)
	if gone := errors.Is(err, nodeconfig.ErrNone) || errors.Is(err, fs.ErrNotExist); gone && cached != nil {
		log(fmt.Sprintf("warning: %v; using the NodeConfig in the cache %s", err, j.cache))
		return cached, cached, nil
	}
	return c, cached, err
}

// inStep removes the config phase from the skipped phases if the NodeConfig differs
// from the cached one, as in Amazon's nodeadm.
func (i *initFlags) inStep(pick *bootstrap.Selection, c, cached *nodeconfig.NodeConfig, log func(string)) error {
	if cached == nil || !slices.Contains(pick.Skip, bootstrap.Config) {
		return nil
	}
	now, err := c.SpecJSON()
	if err != nil {
		return err
	}
	before, err := cached.SpecJSON()
	if err != nil || bytes.Equal(now, before) {
		return err
	}
	log("warning: the NodeConfig differs from the one in the cache " + i.cache + ": the config phase is not skipped")
	pick.Skip = slices.DeleteFunc(slices.Clone(pick.Skip),
		func(p bootstrap.Phase) bool { return p == bootstrap.Config })
	return nil
}

func (j *joining) cached(h *host.Host, log func(string)) *nodeconfig.NodeConfig {
	if j.cache == "" {
		return nil
	}
	c, err := bootstrap.CachedConfig(h, j.cache)
	if err != nil {
		log("warning: " + err.Error())
	}
	return c
}

// join configures the machine as the node and starts the services.
func join(ctx context.Context, h *host.Host, s bootstrap.Services, n *bootstrap.Node, pick bootstrap.Selection) error {
	items, err := s.Items(n, pick)
	if err != nil {
		return err
	}
	_, err = s.Apply(ctx, h, items)
	return err
}

func showPlan(cmd *cobra.Command, h *host.Host, s bootstrap.Services, n *bootstrap.Node,
	pick bootstrap.Selection) error {
	items, err := s.Items(n, pick)
	if err != nil {
		return err
	}
	list := plan.Make(cmd.Context(), h, items)
	p := newPrinter(cmd.OutOrStdout())
	p.plan(list)
	actions := 0
	var errs []error
	for _, planned := range list {
		// An item may fail because earlier items are not applied, for example when
		// containerd does not run yet. This is no failure of the dry run.
		if planned.Error != "" && actions == 0 {
			errs = append(errs, errors.New(planned.Error))
		}
		actions += len(planned.Actions)
	}
	p.line("PLAN: %s; nothing was changed", show.Count(actions, "action"))
	return errors.Join(append(errs, p.err)...)
}

// onNode runs a function that changes the live machine, and prints its error. log writes
// lines for the journal.
func onNode(cmd *cobra.Command, do func(h *host.Host, service *firstboot.Metadata, log func(string)) error) error {
	if os.Geteuid() != 0 {
		return errors.New("joining changes the machine: run it as root")
	}
	h, err := host.Live()
	if err != nil {
		return err
	}
	defer h.Close()
	service, err := firstboot.OpenMetadata(cmd.Context())
	if err == nil {
		err = do(h, service, logTo(cmd.ErrOrStderr()))
	}
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.Root().Name(), err)
		return exitError(1)
	}
	return nil
}

func initCommand() *cobra.Command {
	var i initFlags
	cmd := newCommand("init", cobra.NoArgs, i.run)
	i.joining.flags(cmd)
	i.flags(cmd)
	return cmd
}

// bootHookCommand reserves the secondary network interfaces for the VPC CNI, early at
// boot. A boot unit runs this command.
func bootHookCommand() *cobra.Command {
	cmd := newCommand("boot-hook", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return onNode(cmd, func(h *host.Host, service *firstboot.Metadata, log func(string)) error {
			if there, err := awaitIMDS(cmd.Context(), h, service, 0, log); err != nil || !there {
				return err
			}
			s := bootstrap.Services{IMDS: service, Log: log}
			item, err := s.Ownership(cmd.Context())
			if err != nil {
				return err
			}
			_, err = s.Apply(cmd.Context(), h, []plan.Item{item})
			return err
		})
	})
	cmd.Hidden = true
	return cmd
}
