export * from '../../src/testing/server.ts'
