package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// builderName is in the builder's public key; no image may hold it.
const builderName = "builder@eksnode.test"

// mirrorPort is where the asset mirror listens in the lab.
const mirrorPort = "8080"

// build makes the image.
func (j *job) build(ctx context.Context) (err error) {
	j.step("preparing the base system and the lab")
	lab, root, err := machine.Open(ctx, j.log, j.kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	if j.suite != "" {
		if root, err = (base.Debian{Suite: j.suite}).Prepare(ctx, j.log); err != nil {
			return err
		}
	}

	j.step("getting packer %s and the node's programs", j.packer)
	packer, err := tools.Packer(ctx, j.packer, j.log)
	if err != nil {
		return err
	}
	assets, err := mirror.Build(ctx, mirror.Versions{Kubelet: j.kubelet}, runtime.GOARCH, j.log)
	if err != nil {
		return err
	}
	listener, err := lab.Listen(ctx, "tcp", lab.HostAddress()+":"+mirrorPort)
	if err != nil {
		return err
	}
	server, err := mirror.ServeOn(ctx, listener, assets.Folder, mirror.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	key, err := j.newKey(builderName)
	if err != nil {
		return err
	}
	j.step("booting the machine to build on (%s)", j.kind)
	builder, err := lab.Start(ctx, machine.Config{
		Kind: j.kind, Root: root, InstanceID: "i-builder",
		AuthorizedKeys: []string{key.Authorized}, Signer: key.Signer,
	})
	if err != nil {
		return err
	}
	if err := j.packerBuild(ctx, lab, packer, builder, server.URL()); err != nil {
		return err
	}
	j.step("shutting down")
	if err := builder.PowerOff(ctx); err != nil {
		return err
	}
	j.step("capturing %s", j.image)
	return builder.Capture(ctx, j.image)
}

// newKey makes a key pair, and keeps the private half in a file for packer.
func (j *job) newKey(comment string) (machine.Key, error) {
	key, err := machine.NewKey(comment)
	if err != nil {
		return key, err
	}
	return key, os.WriteFile(j.keyFile(), key.PEM, 0o600)
}

func (j *job) keyFile() string { return filepath.Join(j.temporary, "key") }

// packerBuild installs the plugin as a user would and builds the template.
func (j *job) packerBuild(ctx context.Context, lab *machine.Lab, packer string, m *machine.Machine, source string) error {
	address, port, user := m.SSH()
	j.step("running packer build of %s on %s", filepath.Base(j.template), address)
	vars := map[string]string{
		"host": address, "port": fmt.Sprint(port), "user": user, "private_key": j.keyFile(),
		"kubernetes_version": j.kubelet, "source_url": source, "reports": j.reports,
		"versions": `{"ecr-credential-provider"="` + credentialProviderVersion() + `"}`,
	}
	build := []string{"build", "-color=false"}
	for name, value := range vars {
		build = append(build, "-var", name+"="+value)
	}
	for _, args := range [][]string{
		{"plugins", "install", "--path", j.plugin, "github.com/eksnode/eksnode"},
		append(build, j.template),
	} {
		cmd := lab.Command(ctx, packer, args...)
		cmd.Env = append(os.Environ(),
			"PACKER_PLUGIN_PATH="+filepath.Join(j.temporary, "plugins"),
			"PACKER_CONFIG_DIR="+filepath.Join(j.temporary, "config"), "CHECKPOINT_DISABLE=1")
		cmd.Stdout, cmd.Stderr = j.log, j.log
		cmd.Dir = j.temporary
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("running packer %s: %w", args[0], err)
		}
	}
	return nil
}

// credentialProviderVersion is the one that the harness builds; see package
// tools for why it is not the newest.
func credentialProviderVersion() string {
	_, version, err := tools.Find(tools.NameCredentialProvider, "")
	if err != nil {
		panic(err) // the name is in the table
	}
	return version
}
