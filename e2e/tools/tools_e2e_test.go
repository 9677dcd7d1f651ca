//go:build e2e

package tools_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Every tool of the table can be downloaded or built, is static if built, and
// comes from the cache the second time. Without the publishers' sites, the
// first run on a machine takes some ten minutes.
func TestEveryToolCanBeBuilt(t *testing.T) {
	for _, tool := range tools.Table() {
		for _, version := range tool.Versions {
			t.Run(tool.Name+"@"+version, func(t *testing.T) {
				path, err := tools.Build(t.Context(), tool.Name, version, runtime.GOARCH, t.Output())
				require.NoError(t, err)
				if filepath.Ext(path) != ".tgz" && filepath.Ext(path) != ".gz" && !strings.HasSuffix(filepath.Dir(path), "_released") {
					assertStatic(t, path)
				}
				var log strings.Builder
				again, err := tools.Build(t.Context(), tool.Name, version, runtime.GOARCH, &log)
				require.NoError(t, err)
				assert.Equal(t, path, again)
				assert.Empty(t, log.String())
			})
		}
	}
}

// The amazon plugin installs into each packer, and packer accepts it as a
// release: `packer init` does not go online.
func TestAmazonPluginInstalls(t *testing.T) {
	plugin, err := tools.PackerAmazon(t.Context(), "", t.Output())
	require.NoError(t, err)
	packer, _, err := tools.Find(tools.NamePacker, "")
	require.NoError(t, err)
	for _, version := range packer.Versions {
		t.Run("packer "+version, func(t *testing.T) {
			program, err := tools.Packer(t.Context(), version, t.Output())
			require.NoError(t, err)
			folder := t.TempDir()
			template := filepath.Join(folder, "template.pkr.hcl")
			require.NoError(t, os.WriteFile(template, []byte(`
packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.8.0"
    }
  }
}
source "amazon-ebs" "node" {
  region        = "us-east-1"
  ami_name      = "node"
  instance_type = "m5.large"
  source_ami    = "ami-0"
  ssh_username  = "admin"
  access_key    = "a"
  secret_key    = "b"

  skip_credential_validation = true
  skip_metadata_api_check    = true
  skip_region_validation     = true
}
build {
  sources = ["amazon-ebs.node"]
}
`), 0o644))
			for _, arguments := range [][]string{
				{"plugins", "install", "--path", plugin, "github.com/hashicorp/amazon"},
				{"init", template},
				{"validate", template},
			} {
				command := exec.CommandContext(t.Context(), program, arguments...)
				command.Dir = folder
				command.Env = append(os.Environ(),
					"PACKER_PLUGIN_PATH="+filepath.Join(folder, "plugins"),
					"PACKER_CONFIG_DIR="+folder, "CHECKPOINT_DISABLE=1",
					// Any connection to the network fails at once.
					"HTTPS_PROXY=http://127.0.0.1:1")
				output, err := command.CombinedOutput()
				require.NoError(t, err, "packer %s\n%s", strings.Join(arguments, " "), output)
			}
		})
	}
}

func assertStatic(t *testing.T, path string) {
	t.Helper()
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries)
}
