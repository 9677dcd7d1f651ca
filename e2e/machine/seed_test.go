package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestSeed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "seed")
	key := `ssh-ed25519 AAAA "quoted": comment`
	require.NoError(t, seed{
		instanceID: "i-1", hostname: "node", keys: []string{key}, userData: []byte("#!/bin/sh\ntrue\n"),
	}.write(folder))

	meta, err := os.ReadFile(filepath.Join(folder, "meta-data"))
	require.NoError(t, err)
	var read map[string]any
	require.NoError(t, yaml.Unmarshal(meta, &read))
	assert.Equal(t, map[string]any{
		"instance-id": "i-1", "local-hostname": "node", "public-keys": []any{key},
	}, read)
	user, err := os.ReadFile(filepath.Join(folder, "user-data"))
	require.NoError(t, err)
	assert.Equal(t, "#!/bin/sh\ntrue\n", string(user))
}

func TestSeedWithoutUserData(t *testing.T) {
	files, err := seed{instanceID: "i-1"}.files()
	require.NoError(t, err)
	assert.Equal(t, "#cloud-config\n{}\n", string(files["user-data"]))
}
