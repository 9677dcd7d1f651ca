//go:build e2e && linux

package cluster

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// TestMain runs all tests in a network namespace with only loopback.
func TestMain(m *testing.M) { os.Exit(aws.Alone(m.Run)) }

func TestExecuteDescribesTheCluster(t *testing.T) {
	w := aws.Sample(t)
	url := w.Serve()
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_REGION", "")
	var d Datasource
	require.NoError(t, d.Configure(map[string]any{"name": "my-cluster", "region": aws.Region, "endpoint": url, "assume_role": "arn:aws:iam::123456789012:role/x", "external_id": "y"}))
	value, err := d.Execute()
	require.NoError(t, err)
	told := value.AsValueMap()
	for name, want := range map[string]string{
		"name": "my-cluster", "version": "1.34", "endpoint": "https://ABC.gr7.eu-west-1.eks.amazonaws.com", "certificate_authority": aws.CA,
		"service_cidr": "10.100.0.0/16", "ip_family": "ipv4", "authentication_mode": "API_AND_CONFIG_MAP", "vpc_id": "vpc-1",
		"cluster_security_group_id": "sg-cluster", "arn": "arn:aws:eks:eu-west-1:123456789012:cluster/my-cluster",
	} {
		assert.Equal(t, want, told[name].AsString(), name)
	}
	assert.Equal(t, "subnet-2", told["subnet_ids"].AsValueSlice()[1].AsString())
	assert.Equal(t, "sg-extra", told["security_group_ids"].AsValueSlice()[0].AsString())
	assert.Equal(t, 1, w.Count()["sts:AssumeRole"])
	assert.Len(t, told, len(d.OutputSpec()), "every output must be declared")
}

func TestExecuteNamesTheFailure(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*aws.World)
		want   string
	}{
		"denied":        {func(w *aws.World) { w.Deny("eks:DescribeCluster") }, "the permission eks:DescribeCluster is missing"},
		"no cluster":    {func(w *aws.World) { w.Do("eks:DELETE /clusters/my-cluster") }, "No cluster found for name: my-cluster."},
		"being created": {func(w *aws.World) { w.Clusters["my-cluster"]["status"] = "CREATING" }, "reading the cluster my-cluster: it is CREATING, and tells its endpoint when it is ACTIVE"},
	} {
		t.Run(name, func(t *testing.T) {
			w := aws.Sample(t)
			w.Serve()
			c.change(w)
			var d Datasource
			require.NoError(t, d.Configure(map[string]any{"name": "my-cluster"}))
			_, err := d.Execute()
			require.ErrorContains(t, err, c.want)
		})
	}
}
