package bench

import "testing"

func BenchmarkMemoryRenew(b *testing.B) {
	leases, st, err := grantAll(10000, 100)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	b.ResetTimer()
	if err := renewAll(b.N, st, leases); err != nil {
		b.Fatal(err)
	}
}
