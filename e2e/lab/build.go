package lab

import (
	"cmp"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

// Build builds a template with packer, on a machine from a base system. The
// scrubbed machine is captured.
type Build struct {
	Kind machine.Kind
	// System is the base system of the machine.
	System System
	// Template is the template's folder; examples/local when empty. Its variables
	// are those of examples/local.
	Template string
	// Packer is the version of packer; the newest version in the harness when
	// empty.
	Packer string
	// Image is the file to make: .raw or .qcow2.
	Image string
	// Reports is the folder for the reports.
	Reports string
}

// Builder is the comment of the builder's public key. No image may contain it.
const Builder = "builder@eksnode.test"

// Run makes the image, in a lab of its own.
func (b Build) Run(t *testing.T) {
	t.Helper()
	begin := time.Now()
	step := func(format string, args ...any) {
		t.Logf("[%6.1f s] %s", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	plugin := Built(t, "bin/packer-plugin-eksnode")
	l := Open(t, time.Hour, b.Kind)
	defer func() { assert.NoError(t, l.Close()) }()
	l.Use(t, b.System)
	step("running packer plugins")
	packer := l.NewPacker(t, b.Packer, map[string]string{"github.com/eksnode/eksnode": plugin})
	kubelet := b.System.kubelet(t)
	assets, err := mirror.Build(l.Ctx, kubelet, "amd64", t.Output())
	require.NoError(t, err)
	server := l.ServeMirror(t, l.Port("8080"), assets.Folder, mirror.Options{})

	builder := l.Start(t, machine.Config{Kind: b.Kind, Root: l.Root, InstanceID: "i-builder"})
	address, port, user := builder.SSH()
	build := []string{"build", "-color=false"}
	for name, value := range map[string]string{
		"host": address, "port": fmt.Sprint(port), "user": user, "private_key": packer.Key,
		"kubernetes_version": kubelet, "source_url": server.URL(), "allow_http": "true", "reports": b.Reports,
	} {
		build = append(build, "-var", name+"="+value)
	}
	template := cmp.Or(b.Template, filepath.Join(filepath.Dir(plugin), "../examples/local"))
	step("running packer build")
	packer.Run(t, append(build, template)...)
	step("powering off and capturing %s", b.Image)
	builder.CaptureTo(t, b.Image)
	step("the image is captured")
}
