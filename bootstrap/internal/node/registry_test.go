package node

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRegistriesOfAllPartitions(t *testing.T) {
	for _, c := range []struct{ region, domain, account, want string }{
		{"eu-west-1", "amazonaws.com", "", "602401143452.dkr.ecr.eu-west-1.amazonaws.com"},
		{"cn-north-1", "amazonaws.com.cn", "", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"},
		{"us-gov-east-1", "amazonaws.com", "", "151742754352.dkr.ecr.us-gov-east-1.amazonaws.com"},
		{"us-iso-west-1", "c2s.ic.gov", "", "608367168043.dkr.ecr.us-iso-west-1.c2s.ic.gov"},
		{"us-isob-east-1", "sc2s.sgov.gov", "", "187977181151.dkr.ecr.us-isob-east-1.sc2s.sgov.gov"},
		{"eu-isoe-west-1", "cloud.adc-e.uk", "", "249663109785.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk"},
		{"us-isof-south-1", "csp.hci.ic.gov", "", "676585237158.dkr.ecr.us-isof-south-1.csp.hci.ic.gov"},
		{"eusc-de-east-1", "amazonaws.eu", "", "877088126301.dkr.ecr.eusc-de-east-1.amazonaws.eu"},
		{"eu-west-1", "amazonaws.com", "123456789012", "123456789012.dkr.ecr.eu-west-1.amazonaws.com"},
		// Regions newer than the table.
		{"eu-west-9", "amazonaws.com", "", "602401143452.dkr.ecr.us-west-2.amazonaws.com"},
		{"cn-east-9", "amazonaws.com.cn", "", "961992271922.dkr.ecr.cn-northwest-1.amazonaws.com.cn"},
		{"us-gov-north-9", "amazonaws.com", "", "013241004608.dkr.ecr.us-gov-west-1.amazonaws.com"},
	} {
		assert.Equal(t, c.want, RegistryOf(c.region, c.domain, c.account).Host(false), c.region)
	}
	assert.Equal(t, "602401143452.dkr.ecr-fips.us-east-1.amazonaws.com", RegistryOf("us-east-1", "amazonaws.com", "").Host(true))
	assert.Equal(t, "h/eks/pause:3.5", PauseImage("h", "3.5"))
}

func TestRegistryAccountsHaveTwelveDigits(t *testing.T) {
	assert.Len(t, Regions(), 46)
	for _, region := range Regions() {
		r := RegistryOf(region, "d", "")
		assert.Regexp(t, regexp.MustCompile(`^\d{12}$`), r.Account, region)
		assert.Equal(t, region, r.Region)
	}
}
