package scrub

import "testing"

// FuzzNamesCluster reads any file from the folder of NodeConfigs.
func FuzzNamesCluster(f *testing.F) {
	f.Add("kind: NodeConfig\nspec: {cluster: {name: a}}\n---\nkind: NodeConfig\n")
	f.Add("NodeConfig\n&a [*a, *a]")
	f.Add("kind: NodeConfig\nspec: {cluster: x}")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = namesCluster([]byte(text))
	})
}
